import { get, call, may, post } from "../api.js";
import { bars, KINDS, stacked } from "../chart.js";
import { dialog, field, h, n, put, table, toast, wide } from "../dom.js";
import { count, lasting, money, ms, percent, t } from "../words.js";

const EVERY_MS = 2000, ROOM = 60, REPORT_EVERY = 15;

export async function show(place) {
  const samples = [];
  let before = null, timer = 0, looks = 0, gone = false;
  const part = Object.fromEntries(["lead", "cards", "live", "reasons", "workers", "rates", "top"].map((name) => [name, h("div", {})]));
  put(place, part.lead, part.cards, part.live, part.reasons, part.workers, part.rates, part.top);

  async function look() {
    const full = looks % REPORT_EVERY === 0;
    looks += 1;
    const told = await get(full ? "/admin/report" : "/admin/stats");
    if (gone) return;
    const counts = { ...told.hits, miss: told.misses_total };
    if (before) samples.push(Object.fromEntries(KINDS.map((kind) => [kind, Math.max(0, (counts[kind] ?? 0) - (before[kind] ?? 0))])));
    if (samples.length > ROOM) samples.shift();
    before = counts;
    put(part.lead, h("p", { class: "lead" }, t("overview_lead", lasting(told.now_s - told.since_s))),
      told.mode === "observe" ? h("p", { class: "note" }, t("mode_observe")) : null);
    put(part.cards, cards(told));
    put(part.live, live(samples, told));
    put(part.reasons, reasons(told));
    if (!part.workers.contains(document.activeElement)) put(part.workers, workers(told.workers, look));
    put(part.rates, rates(told.false_hit_rate));
    if (full) put(part.top, top(told));
  }

  const again = async () => {
    if (!document.hidden) {
      try { await look(); } catch (trouble) { if (!gone) put(part.lead, h("p", { class: "note bad" }, t("trouble", trouble.message))); }
    }
    if (!gone) timer = setTimeout(again, EVERY_MS);
  };
  await look();
  timer = setTimeout(again, EVERY_MS);
  return () => { gone = true; clearTimeout(timer); };
}

const card = (what, number, more, words = false) => h("section", { class: "card" }, h("h2", { class: "what" }, what),
  h("p", { class: words ? "number words" : "number" }, number), [more].flat().map((each) => (each ? h("p", { class: "more" }, each) : null)));

function cards(told) {
  const { saved, latency } = told;
  return h("div", { class: "cards" },
    card(t("served_share"), percent(told.hit_share), told.lookups ? t("of_lookups", count(told.hits_total), count(told.lookups)) : t("no_lookups")),
    falseCard(told.false_hit_rate),
    card(t("latency"), ms(latency.hits.p50_ms), [t("hit_latency", ms(latency.hits.p99_ms)), t("miss_latency", ms(latency.misses.p50_ms), ms(latency.misses.p99_ms))]),
    card(t("tokens_saved"), count(saved.completion_tokens), t("prompt_saved", count(saved.prompt_tokens))),
    card(t("gpu_saved"), lasting(saved.gpu_s), saved.gpu_s_per_token === null ? t("no_gpu_yet") : t("gpu_note", lasting(saved.gpu_s_per_token))),
    card(t("money_saved"), money(saved.money, saved.currency), saved.money === null ? (saved.gpu_s_per_token === null ? t("no_gpu_yet") : t("no_price")) : null));
}

function falseCard({ budget, measured }) {
  const most = [...measured].sort((one, other) => other.checks - one.checks)[0];
  const rate = most?.corrected ?? most?.raw;
  const allowed = t("budget", percent(budget, 2));
  if (!rate) return card(t("false_rate"), t("not_enough"), [most?.why, allowed], true);
  return card(t("false_rate"), percent(rate.estimate, 2), [t("interval", percent(rate.low, 2), percent(rate.high, 2)),
    `${t("for_pair", most.tenant, most.model)}. ${allowed}`, most.corrected ? null : t("raw_rate")]);
}

function live(samples, told) {
  const totals = { ...told.hits, miss: told.misses_total };
  const shown = KINDS.filter((kind) => kind in totals);
  const words = shown.map((kind) => `${t(`tier_${kind}`)} ${count(samples.reduce((sum, each) => sum + (each[kind] ?? 0), 0))}`).join(", ");
  return h("section", { class: "panel" }, h("h2", {}, t("live")), stacked(samples, ROOM, t("live_label", words), t("per_span")),
    h("ul", { class: "legend" }, shown.map((kind) => h("li", {}, h("i", { class: kind }), `${t(`tier_${kind}`)} ${count(totals[kind])}`))));
}

function reasons(told) {
  const list = (title, counts) => h("section", { class: "panel" }, h("h2", {}, title), Object.keys(counts).length ? bars(counts, count) : h("p", { class: "empty" }, t("nothing_yet")));
  return h("div", { class: "columns" }, list(t("misses_by"), told.misses), list(t("refusals_by"), told.refusals));
}

function workers(all, look) {
  const act = async (work) => {
    try { await work(); toast(t("done")); } catch (trouble) { toast(trouble.message, true); }
    document.activeElement?.blur();
    await look();
  };
  const path = (worker, rest = "") => `/admin/workers/${encodeURIComponent(worker.name)}${rest}`;
  const remove = async (worker) => {
    const sure = await dialog(t("remove_worker", worker.name), h("p", {}, t("remove_worker_why")), [[t("remove"), true, "danger"], [t("cancel"), false]]);
    if (sure) await act(() => call("DELETE", path(worker)));
  };
  const deeds = (worker) => h("div", { class: "row" },
    may("POST /admin/workers/{name}/drain") ? (worker.state === "draining"
      ? h("button", { type: "button", class: "small", onclick: () => act(() => post(path(worker, "/undrain"))) }, t("undrain"))
      : h("button", { type: "button", class: "small", onclick: () => act(() => post(path(worker, "/drain"))) }, t("drain"))) : null,
    may("DELETE /admin/workers/{name}") ? h("button", { type: "button", class: "small danger", onclick: () => remove(worker) }, t("remove")) : null);
  const mood = { up: "good", down: "bad", draining: "warn", unknown: "warn" };
  const rows = all.map((worker) => [
    wide([h("strong", {}, worker.name), h("br"), h("span", { class: "soft" }, worker.models.join(", "))]),
    [h("span", { class: `tag state ${mood[worker.state]}` }, worker.state), worker.trouble ? h("div", { class: "soft" }, worker.trouble) : null],
    n(count(worker.in_flight)), n(worker.running === null ? "–" : `${count(worker.running)} · ${count(worker.waiting)}`),
    n(percent(worker.kv_usage)), n(percent(worker.prefix_hit_share)), n(count(worker.sessions)), deeds(worker)]);
  const url = h("input", { type: "url", required: true, placeholder: "http://10.0.0.7:8000" });
  const add = (event) => { event.preventDefault(); act(() => post("/admin/workers", { url: url.value })); };
  return h("section", { class: "panel" }, h("h2", {}, t("workers")),
    table([t("name"), t("state"), n(t("load")), n(t("running")), n(t("kv")), n(t("prefix")), n(t("sessions")), t("actions")], rows, t("nothing_yet")),
    may("POST /admin/workers") ? h("form", { class: "row", onsubmit: add }, h("div", { class: "grow" }, field(`${t("add_worker")}: ${t("worker_url")}`, url)), h("div", {}, h("label", {}, h("button", { type: "submit" }, t("add"))))) : null);
}

function rates({ measured }) {
  const told = (rate) => (rate ? `${percent(rate.estimate, 2)} (${percent(rate.low, 2)} – ${percent(rate.high, 2)})` : t("not_enough"));
  const rows = measured.map((each) => [each.tenant, each.model, n(count(each.checks)), told(each.corrected), told(each.raw),
    `${percent(each.comparator.specificity)} · ${percent(each.comparator.sensitivity)}`, each.why || ""]);
  return h("section", { class: "panel" }, h("h2", {}, t("rates")),
    table([t("tenant"), t("model"), n(t("checks")), t("corrected"), t("raw"), t("comparator"), t("why")], rows, t("no_measure")));
}

function top(told) {
  const rows = told.top_questions.map((each) => [n(count(each.times)), wide(each.question ?? t("no_text")), wide(h("div", { class: "text clip" }, each.answer ?? t("no_text"))), each.tenant, each.model,
    h("span", { class: "mono" }, each.entry)]);
  return h("section", { class: "panel" }, h("h2", {}, t("top")), told.entries === null ? null : h("p", { class: "soft" }, `${t("entries_held")}: ${count(told.entries)}`),
    table([n(t("times")), t("question"), t("answer"), t("tenant"), t("model"), t("entry")], rows, t("no_top")));
}
