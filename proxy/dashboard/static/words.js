// Every word of the page, in English and Chinese. A test holds both to the same keys.
const en = {
  title: "Rejoinder", skip: "Skip to content", language: "中文", language_label: "Language: 中文", theme: "Colours", theme_auto: "Auto", theme_light: "Light", theme_dark: "Dark",
  overview: "Overview", entries: "Entries", curated: "Curated", review: "Review", purge: "Purge", lab: "Lab", playground: "Playground", system: "System",
  sign_in: "Sign in", sign_out: "Sign out", token: "Admin token", sign_in_lead: "Show a token of the setting admin_tokens, or the API key of a trusted tenant. It is kept in no place that a script can read.",
  cannot_enter: "You cannot come in this way", try_again: "Try again", loading: "Loading…", save: "Save", cancel: "Cancel", close: "Close", delete: "Delete", more: "More", search: "Search", open: "Open", refresh: "Refresh", done: "Done.",
  yes: "yes", no: "no", none: "none", nothing_yet: "Nothing yet.", unknown: "not known", role: "Role", who: "Who", when: "When", what: "What", why: "Why", tenant: "Tenant", model: "Model", question: "Question", answer: "Answer", times: "Times", state: "State", name: "Name",
  trouble: "It could not be read: {0}",
  overview_lead: "What was asked since this server began ({0} ago), in all its processes.",
  served_share: "Served from the cache", of_lookups: "{0} of {1} lookups", no_lookups: "Nobody has asked yet",
  false_rate: "Wrong, of what is served by meaning", not_enough: "Not enough evidence", interval: "{0} – {1} with 95 % confidence", budget: "Budget {0}", raw_rate: "as compared, not corrected for the comparator's own error", for_pair: "{0}, model {1}",
  latency: "Time to the first byte", hit_latency: "hits; 1 % above {0}", miss_latency: "misses {0}; 1 % above {1}",
  tokens_saved: "Tokens not generated", prompt_saved: "and {0} prompt tokens not read", gpu_saved: "GPU time saved", gpu_note: "a generated token takes {0} here", money_saved: "Money saved", no_price: "Set gpu_hour_price to see it", no_gpu_yet: "Known once a worker has answered",
  live: "Live: lookups every 2 seconds", live_label: "Lookups of the last two minutes by how they were answered: {0}", per_span: "in 2 s",
  tier_session: "session", tier_recent: "same words", tier_similar: "same meaning", tier_curated: "curated", tier_miss: "asked a worker",
  misses_by: "Why workers were asked", refusals_by: "Near answers that were refused, by whom", workers: "Workers", load: "In hand", running: "Runs · waits", kv: "KV cache used", prefix: "Prefix hits", sessions: "Sessions", drain: "Drain", undrain: "Undrain", remove: "Remove", add_worker: "Add a worker", worker_url: "Base URL", add: "Add",
  remove_worker: "Remove {0}?", remove_worker_why: "It is forgotten at once; answers that it is giving end as ever.",
  rates: "The measured false-hit rate", checks: "Checks", corrected: "Corrected", raw: "As compared", comparator: "Comparator right on equal · different", alarmed: "tightened", no_measure: "No hit by meaning was checked yet.", judge: "Judge", judge_on: "asked in the grey band", judge_off: "off",
  top: "Served most", entry: "Entry", no_top: "Nothing was served from the cache yet.", entries_held: "Entries held", mode_observe: "mode = observe: nothing is served from the cache, everything is only counted.",
  review_lead: "Answers that somebody called wrong. Put right ones back, take wrong ones out, or delete them with all that was said of them.",
  complaints: "Complained about, still served", quarantined: "Out of service", comments: "What people said", release: "Put back", quarantine: "Take out", delete_entry: "Delete this answer?", delete_entry_why: "It is gone from every tier and replica, with all that was said of it. This cannot be undone.", was_deleted: "Deleted.", was_released: "It is served again.", was_quarantined: "Nobody is served it any more.", no_text: "(no text)",
  lab_lead: "Two questions, were one stored and the other asked: what would be decided, by the very parts that decide for users. Nothing is stored.",
  asked: "Somebody asks", stored: "Asked before, and answered", system_prompt: "System prompt (both)", compare: "Compare", would_serve: "The stored answer would be served", would_ask: "A worker would be asked", likeness: "Likeness", exact: "same bytes", wording: "same words", meaning: "same meaning", similarity: "Similarity (cosine)", threshold: "Threshold without a reader", reader: "Reader (logit)", p_right: "Right with", bar: "Must reach", objections: "Objections", no_objections: "Nobody objects.", policy: "How far each may travel", reads: "read", writes: "kept", traits: "Traits", swap: "Swap", as_tenant: "As tenant",
  similarity_label: "Similarity {0}; threshold {1}",
  play_lead: "Ask as your users do. Beside each answer: where it came from, how long it took, and what it cost or spared.",
  api_key: "API key (kept in this page only)", ask: "Ask", message: "Your question", fresh: "Ask a worker anyway (no-cache)", as_session: "As one session", new_chat: "New chat", stop: "Stop", no_model: "No worker says which models it serves.", failed: "It failed: {0}", broke_off: "The answer broke off.",
  from_cache: "From the cache: {0}", from_worker: "From worker {0}", from_worker_plain: "From a worker", joined: "shared with an equal question in the air", first_byte: "first byte {0}", whole: "whole {0}", tokens: "{0} tokens", cost: "cost {0}", spared: "spared {0}", cost_unknown: "cost not known yet", good: "Good answer", bad: "Bad answer", rated: "Noted: {0}", age: "{0} old", you: "You", chat_log: "Chat",
  actions: "Actions", one_a_line: "one a line", before: "Previous", next: "Next", page: "Page {0}", back: "All entries", edit: "Edit", tags: "Tags", new_curated: "New curated answer", curated_lead: "Answers that people wrote or approved. They are served first, and are never evicted.",
  purge_lead: "Forget every answer that matches all that is filled in, in every tier and replica. It is counted first.", count_first: "Count first", would_purge: "This would be forgotten", purge_now: "Forget it now", purge_sure: "Forget all of this?", purged: "Forgotten.",
  q: "Words", tag: "Tag", source: "Document", version: "Version", user: "User", entry_id: "Entry", wordings: "Other wordings", owner: "Owner", review_at: "Review on", expires_at: "Expires on", dry_run: "Count only", matched: "Matched", deleted: "Deleted", all: "Everything",
  system_text: "System prompt", system_lead: "Every setting and where its value came from. Secrets are never shown.", setting: "Setting", value: "Value", origin: "From", help: "What it is", filter: "Filter", audit: "Audit: who changed what", outcome: "Outcome", route: "To what", no_audit: "Nobody has changed anything.", changed_only: "Only what is not a default",
};

const zh = {
  title: "Rejoinder", skip: "跳到内容", language: "English", language_label: "语言：English", theme: "配色", theme_auto: "自动", theme_light: "浅色", theme_dark: "深色",
  overview: "总览", entries: "条目", curated: "人工问答", review: "审核", purge: "清除", lab: "阈值实验", playground: "试用", system: "系统",
  sign_in: "登录", sign_out: "退出", token: "管理令牌", sign_in_lead: "请输入 admin_tokens 中的令牌，或受信租户的 API 密钥。它不会保存在脚本能读到的地方。",
  cannot_enter: "无法从这里进入", try_again: "重试", loading: "加载中…", save: "保存", cancel: "取消", close: "关闭", delete: "删除", more: "更多", search: "搜索", open: "打开", refresh: "刷新", done: "完成。",
  yes: "是", no: "否", none: "无", nothing_yet: "暂无内容。", unknown: "未知", role: "角色", who: "谁", when: "时间", what: "内容", why: "原因", tenant: "租户", model: "模型", question: "问题", answer: "回答", times: "次数", state: "状态", name: "名称",
  trouble: "无法读取：{0}",
  overview_lead: "服务器启动以来（{0}）所有进程收到的提问。",
  served_share: "由缓存回答", of_lookups: "{1} 次查询中的 {0} 次", no_lookups: "还没有人提问",
  false_rate: "按语义命中中的错误率", not_enough: "证据不足", interval: "95 % 置信区间 {0} – {1}", budget: "预算 {0}", raw_rate: "比较所得，未修正比较器自身误差", for_pair: "{0}，模型 {1}",
  latency: "首字节时间", hit_latency: "命中；1 % 超过 {0}", miss_latency: "未命中 {0}；1 % 超过 {1}",
  tokens_saved: "省下的生成 token", prompt_saved: "另有 {0} 个提示 token 无需读取", gpu_saved: "省下的 GPU 时间", gpu_note: "此处每生成一个 token 需 {0}", money_saved: "省下的费用", no_price: "设置 gpu_hour_price 后可见", no_gpu_yet: "有工作节点回答后可知",
  live: "实时：每 2 秒的查询", live_label: "最近两分钟的查询，按回答方式：{0}", per_span: "次/2 秒",
  tier_session: "会话", tier_recent: "相同词句", tier_similar: "相同含义", tier_curated: "人工问答", tier_miss: "由工作节点回答",
  misses_by: "为何询问工作节点", refusals_by: "被拒绝的相近回答（按拒绝者）", workers: "工作节点", load: "处理中", running: "运行 · 等待", kv: "KV 缓存占用", prefix: "前缀命中", sessions: "会话", drain: "排空", undrain: "恢复", remove: "移除", add_worker: "添加工作节点", worker_url: "基础 URL", add: "添加",
  remove_worker: "移除 {0}？", remove_worker_why: "立即不再使用；正在进行的回答会照常完成。",
  rates: "实测误命中率", checks: "检查数", corrected: "修正后", raw: "比较所得", comparator: "比较器对相同 · 不同的正确率", alarmed: "已收紧", no_measure: "尚未检查任何语义命中。", judge: "裁判", judge_on: "在灰色区间被询问", judge_off: "关闭",
  top: "被复用最多", entry: "条目", no_top: "缓存尚未回答过任何问题。", entries_held: "现有条目", mode_observe: "mode = observe：缓存不作答，只做统计。",
  review_lead: "有人认为错误的回答。把正确的放回，把错误的撤下，或连同所有评价一起删除。",
  complaints: "有投诉，仍在使用", quarantined: "已停用", comments: "用户意见", release: "放回", quarantine: "撤下", delete_entry: "删除这个回答？", delete_entry_why: "它将从所有层级和副本中消失，连同所有评价。此操作无法撤销。", was_deleted: "已删除。", was_released: "已重新启用。", was_quarantined: "不再提供给任何人。", no_text: "（无文本）",
  lab_lead: "两个问题，一个已存储、一个被提问：由真正为用户做决定的部件给出结论。不会存储任何内容。",
  asked: "有人提问", stored: "之前问过并已回答", system_prompt: "系统提示（两者共用）", compare: "比较", would_serve: "会使用已存储的回答", would_ask: "会询问工作节点", likeness: "相似方式", exact: "字节相同", wording: "词句相同", meaning: "含义相同", similarity: "相似度（余弦）", threshold: "无阅读器时的阈值", reader: "阅读器（logit）", p_right: "正确概率", bar: "须达到", objections: "反对意见", no_objections: "无人反对。", policy: "各自可传播的范围", reads: "读取", writes: "保存", traits: "特征", swap: "交换", as_tenant: "作为租户",
  similarity_label: "相似度 {0}；阈值 {1}",
  play_lead: "像用户一样提问。每个回答旁边：来自哪里、用时多少、花费或节省多少。",
  api_key: "API 密钥（仅保存在本页）", ask: "提问", message: "您的问题", fresh: "仍询问工作节点（no-cache）", as_session: "作为同一会话", new_chat: "新对话", stop: "停止", no_model: "没有工作节点报告可用模型。", failed: "失败：{0}", broke_off: "回答中断。",
  from_cache: "来自缓存：{0}", from_worker: "来自工作节点 {0}", from_worker_plain: "来自工作节点", joined: "与正在进行的相同提问共用", first_byte: "首字节 {0}", whole: "全部 {0}", tokens: "{0} 个 token", cost: "花费 {0}", spared: "节省 {0}", cost_unknown: "费用尚不可知", good: "回答好", bad: "回答差", rated: "已记录：{0}", age: "{0} 前生成", you: "您", chat_log: "对话",
  actions: "操作", one_a_line: "每行一个", before: "上一页", next: "下一页", page: "第 {0} 页", back: "所有条目", edit: "编辑", tags: "标签", new_curated: "新建人工问答", curated_lead: "由人撰写或批准的回答。优先使用，且永不淘汰。",
  purge_lead: "忘记所有符合填写条件的回答，涵盖所有层级和副本。先计数。", count_first: "先计数", would_purge: "将会忘记", purge_now: "立即忘记", purge_sure: "全部忘记？", purged: "已忘记。",
  q: "词语", tag: "标签", source: "文档", version: "版本", user: "用户", entry_id: "条目", wordings: "其他问法", owner: "负责人", review_at: "复核日期", expires_at: "到期日期", dry_run: "仅计数", matched: "匹配", deleted: "已删除", all: "全部",
  system_text: "系统提示", system_lead: "每个设置及其来源。机密永不显示。", setting: "设置", value: "值", origin: "来源", help: "说明", filter: "筛选", audit: "审计：谁改了什么", outcome: "结果", route: "对象", no_audit: "还没有人做过更改。", changed_only: "仅显示非默认值",
};

export const WORDS = { en, zh };

let language = "en";
try { language = localStorage.getItem("language") ?? (navigator.language.startsWith("zh") ? "zh" : "en"); } catch { /* no storage: English */ }
if (!(language in WORDS)) language = "en";

export const lang = () => language;

export function speak(next) {
  language = next;
  try { localStorage.setItem("language", next); } catch { /* for this page only */ }
}

export function t(key, ...given) {
  const words = WORDS[language][key] ?? en[key] ?? key;
  return words.replace(/\{(\d)\}/g, (_, place) => given[Number(place)] ?? "");
}

// The name of a field of the API, for people.
export const named = (name) => WORDS[language][name] ?? name.replace(/_/g, " ").replace(/^./, (first) => first.toUpperCase());

const locale = () => (language === "zh" ? "zh-CN" : "en-GB");
export const count = (value) => (value === null || value === undefined ? "–" : new Intl.NumberFormat(locale()).format(value));
export const percent = (value, digits = 1) => (value === null || value === undefined ? "–" : new Intl.NumberFormat(locale(), { style: "percent", maximumFractionDigits: digits }).format(value));
export const ms = (value) => (value === null || value === undefined ? "–" : value < 10 ? `${value.toFixed(1)} ms` : value < 10000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`);
export const when = (seconds) => new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "medium" }).format(new Date(seconds * 1000));
export function money(value, currency) {
  if (value === null || value === undefined) return "–";
  const digits = value !== 0 && Math.abs(value) < 0.01 ? 6 : 2;
  return `${new Intl.NumberFormat(locale(), { maximumFractionDigits: digits, minimumFractionDigits: Math.min(2, digits) }).format(value)} ${currency}`;
}
export function lasting(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86400)} d`;
}
