import { call, get, may } from "../api.js";
import { dialog, field, h, put, toast } from "../dom.js";
import { count, lasting, money, ms, t } from "../words.js";

const kept = { key: "", system: "", model: "", fresh: false, session: true };
let chat = [], sessionId = "";

// One SSE line at a time: `data: {...}`.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}

// What the reply says of itself: RFC 9211 and our own headers.
function origin(headers) {
  const status = headers.get("Cache-Status") ?? "";
  const detail = /detail="((?:[^"\\]|\\.)*)"/.exec(status)?.[1].replace(/\\(.)/g, "$1") ?? "";
  return { hit: /;\s*hit/.test(status), collapsed: /;\s*collapsed/.test(status), detail, age: headers.get("Age"),
    worker: headers.get("X-Rejoinder-Worker")?.split(";")[0], why: /reason="((?:[^"\\]|\\.)*)"/.exec(headers.get("X-Rejoinder-Worker") ?? "")?.[1],
    entry: headers.get("X-Rejoinder-Entry"), reply: headers.get("X-Rejoinder-Reply") };
}

export async function show(place) {
  let saved = may("GET /admin/stats") ? (await get("/admin/stats")).saved : null;
  const models = await served();
  kept.model = models.includes(kept.model) ? kept.model : models[0] ?? "";
  sessionId ||= crypto.randomUUID?.() ?? String(Math.random());
  let running = null;
  const set = (name) => (event) => { kept[name] = event.target.type === "checkbox" ? event.target.checked : event.target.value; };
  const log = h("div", { class: "chat", role: "log", "aria-label": t("chat_log"), tabindex: "0" });
  const text = h("textarea", { rows: 2, required: true, onkeydown: (event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); } } });
  const key = h("input", { type: "password", autocomplete: "off", value: kept.key, oninput: set("key"), onchange: async () => seen(await served()) });
  const options = (names) => { kept.model = names.includes(kept.model) ? kept.model : names[0] ?? ""; return names.map((name) => h("option", { value: name, selected: name === kept.model }, name)); };
  const model = h("select", { onchange: set("model") }, options(models));
  const stop = h("button", { type: "button", disabled: true, onclick: () => running?.abort() }, t("stop"));
  const form = h("form", { class: "panel", onsubmit: (event) => { event.preventDefault(); ask(); } },
    field(t("message"), text),
    h("div", { class: "row" }, h("button", { class: "main", type: "submit" }, t("ask")), stop,
      h("button", { type: "button", onclick: () => { chat = []; sessionId = crypto.randomUUID?.() ?? String(Math.random()); put(log); text.focus(); } }, t("new_chat")),
      field(t("fresh"), h("input", { type: "checkbox", checked: kept.fresh, onchange: set("fresh") })),
      field(t("as_session"), h("input", { type: "checkbox", checked: kept.session, onchange: set("session") }))),
    h("div", { class: "columns" }, h("div", {}, field(t("model"), model)), h("div", {}, field(t("api_key"), key))),
    field(t("system_text"), h("textarea", { rows: 2, value: kept.system, oninput: set("system") })));
  const nobody = h("div", {});
  const seen = (names) => { put(model, options(names)); put(nobody, names.length ? null : h("p", { class: "note" }, t("no_model"))); };
  seen(models);
  put(place, h("p", { class: "lead" }, t("play_lead")), nobody, log, form);
  for (const turn of chat) log.append(turn.role === "user" ? mine(turn.content) : turn.element);

  async function ask() {
    const question = text.value.trim();
    if (!question || running) return;
    text.value = "";
    log.append(mine(question));
    chat.push({ role: "user", content: question });
    const words = h("div", { class: "text" }), from = h("div", { class: "from" }, t("loading"));
    const element = h("article", { class: "said" }, words, from);
    log.append(element);
    element.scrollIntoView({ block: "nearest" });
    running = new AbortController();
    stop.disabled = false;
    const turn = { role: "assistant", content: "", element };
    try {
      await answered(turn, words, from);
    } catch (trouble) {
      put(from, h("span", { class: "bad" }, trouble.name === "AbortError" ? t("broke_off") : t("failed", trouble.message)));
    }
    if (turn.content) chat.push(turn);
    else chat.pop();
    running = null;
    stop.disabled = true;
    text.focus();
  }

  async function answered(turn, words, from) {
    const headers = { "Content-Type": "application/json" };
    if (kept.key) headers.Authorization = `Bearer ${kept.key}`;
    if (kept.session) headers["X-Session-ID"] = sessionId;
    if (kept.fresh) headers["Cache-Control"] = "no-cache";
    const messages = [...(kept.system ? [{ role: "system", content: kept.system }] : []), ...chat.map(({ role, content }) => ({ role, content }))];
    const began = performance.now();
    const reply = await fetch("/v1/chat/completions", { method: "POST", headers, credentials: "omit", signal: running.signal,
      body: JSON.stringify({ model: kept.model, messages, stream: true, stream_options: { include_usage: true } }) });
    if (!reply.ok) throw new Error((await reply.json().catch(() => null))?.error?.message ?? `${reply.status} ${reply.statusText}`);
    let first = null, usage = null, whole = false;
    for await (const data of events(reply.body)) {
      if (data === "[DONE]") { whole = true; continue; }
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      first ??= performance.now() - began;
      usage = chunk.usage ?? usage;
      turn.content += chunk.choices?.[0]?.delta?.content ?? "";
      words.textContent = turn.content;
    }
    const total = performance.now() - began;
    if (may("GET /admin/stats")) saved = (await get("/admin/stats")).saved;
    put(from, story(origin(reply.headers), first, total, usage, whole, saved));
  }

  function story(seen, first, total, usage, whole, prices) {
    const tokens = usage?.completion_tokens;
    const spent = tokens === undefined || prices?.gpu_s_per_token == null ? t("cost_unknown")
      : t(seen.hit ? "spared" : "cost", `${prices.money_per_token === null ? "" : `${money(tokens * prices.money_per_token, prices.currency)} · `}${lasting(tokens * prices.gpu_s_per_token)} GPU`);
    const rate = async (rating) => {
      const headers = kept.key ? { Authorization: `Bearer ${kept.key}` } : {};
      try {
        const told = await fetch("/v1/feedback", { method: "POST", credentials: "omit", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify({ reply: seen.reply, rating }) });
        const said = await told.json();
        toast(told.ok ? t("rated", said.message) : said.error.message, !told.ok);
      } catch (trouble) { toast(trouble.message, true); }
    };
    const remove = async () => {
      const sure = await dialog(t("delete_entry"), h("p", {}, t("delete_entry_why")), [[t("delete"), true, "danger"], [t("cancel"), false]]);
      if (!sure) return;
      try { await call("DELETE", `/admin/entries/${seen.entry}`); toast(t("was_deleted")); } catch (trouble) { toast(trouble.message, true); }
    };
    return [
      h("p", {}, h("span", { class: seen.hit ? "tag good origin" : "tag origin" }, seen.hit ? t("from_cache", seen.detail) : seen.worker ? t("from_worker", seen.worker) : t("from_worker_plain")),
        seen.collapsed ? h("span", { class: "tag" }, t("joined")) : null, whole ? null : h("span", { class: "tag bad" }, t("broke_off")),
        h("span", { class: "tag" }, t("first_byte", ms(first))), h("span", { class: "tag" }, t("whole", ms(total))),
        tokens === undefined ? null : h("span", { class: "tag" }, t("tokens", count(tokens))), h("span", { class: "tag cost" }, spent),
        seen.hit && seen.age !== null ? h("span", { class: "tag" }, t("age", lasting(Number(seen.age)))) : null),
      seen.hit ? null : h("p", { class: "soft" }, [seen.detail, seen.why].filter(Boolean).join(" · ")),
      h("div", { class: "row" },
        seen.reply ? [h("button", { type: "button", class: "small", onclick: () => rate("good") }, t("good")), h("button", { type: "button", class: "small", onclick: () => rate("bad") }, t("bad"))] : null,
        seen.entry && may("DELETE /admin/entries/{entry}") ? h("button", { type: "button", class: "small danger", onclick: remove }, t("delete")) : null)];
  }
  return () => running?.abort();
}

const mine = (words) => h("article", { class: "said mine text", "aria-label": t("you") }, words);

async function served() {
  try {
    const reply = await fetch("/v1/models", { headers: kept.key ? { Authorization: `Bearer ${kept.key}` } : {}, credentials: "omit", cache: "no-store" });
    return reply.ok ? (await reply.json()).data.map((each) => each.id) : [];
  } catch { return []; }
}
