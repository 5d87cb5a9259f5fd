import { call, door, get, may, post, query } from "../api.js";
import { dialog, h, put, table, toast, wide } from "../dom.js";
import { facts, form } from "../form.js";
import { t, when } from "../words.js";

const LIMIT = 50, LATER_MS = 300;
let kept = {};

// One page of a list at a time, whatever its length.
export async function show(place, [chosen]) {
  if (chosen && may("GET /admin/entries/{entry}")) return one(place, chosen);
  const filters = Object.entries(door("GET /admin/entries").query).filter(([name]) => !["cursor", "limit"].includes(name));
  const schema = { properties: Object.fromEntries(filters) };
  const asked = form(schema, kept);
  const list = h("div", { "aria-live": "polite" });
  const pages = [null];
  let asking = 0;
  const draw = async () => {
    const mine = ++asking;
    kept = asked.read();
    try {
      const told = await get(`/admin/entries${query({ ...kept, limit: LIMIT, cursor: pages.at(-1) })}`);
      if (mine !== asking) return;
      put(list, rows(told.items, draw), h("div", { class: "row" },
        h("button", { type: "button", disabled: pages.length === 1, onclick: () => { pages.pop(); draw(); } }, t("before")),
        h("button", { type: "button", disabled: !told.next, onclick: () => { pages.push(told.next); draw(); } }, t("next")), h("span", { class: "soft" }, t("page", pages.length))));
    } catch (trouble) { if (mine === asking) put(list, h("p", { class: "note bad" }, trouble.message)); }
  };
  let timer = 0;
  const search = (event) => { event.preventDefault(); clearTimeout(timer); pages.length = 1; draw(); };
  const later = () => { clearTimeout(timer); timer = setTimeout(() => { pages.length = 1; draw(); }, LATER_MS); };
  put(place, h("form", { class: "panel", onsubmit: search, oninput: later, role: "search" }, h("div", { class: "fields" }, asked.fields), h("button", { class: "main", type: "submit" }, t("search"))), list);
  await draw();
  return () => { asking += 1; clearTimeout(timer); };
}

function rows(items, again) {
  return table([t("question"), t("answer"), t("tenant"), t("model"), t("actions")], items.map((each) => [
    wide(may("GET /admin/entries/{entry}") ? h("a", { href: `#/entries/${each.entry}` }, each.question ?? t("no_text")) : each.question ?? t("no_text")),
    wide(h("div", { class: "text clip" }, each.answer ?? t("no_text"))), [each.tenant, (each.tags ?? []).map((tag) => h("span", { class: "tag" }, tag))], each.model, deeds(each.entry, again)]), t("nothing_yet"));
}

function deeds(entry, again) {
  const act = async (work, words) => {
    try { await work(); toast(words); await again(); } catch (trouble) { toast(trouble.message, true); }
  };
  const remove = async () => {
    const sure = await dialog(t("delete_entry"), h("p", {}, t("delete_entry_why")), [[t("delete"), true, "danger"], [t("cancel"), false]]);
    if (sure) await act(() => call("DELETE", `/admin/entries/${entry}`), t("was_deleted"));
  };
  return h("div", { class: "row" },
    may("POST /admin/entries/{entry}/quarantine") ? h("button", { type: "button", class: "small", onclick: () => act(() => post(`/admin/entries/${entry}/quarantine`), t("was_quarantined")) }, t("quarantine")) : null,
    may("DELETE /admin/entries/{entry}") ? h("button", { type: "button", class: "small danger", onclick: remove }, t("delete")) : null);
}

async function one(place, entry) {
  const path = `/admin/entries/${encodeURIComponent(entry)}`;
  const told = await get(path);
  const way = ["PATCH", "PUT"].find((method) => may(`${method} /admin/entries/{entry}`));
  const { question, answer, ...rest } = told;
  const times = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, name.endsWith("_s") && value > 1e9 ? when(value) : value]));
  const parts = [h("p", {}, h("a", { href: "#/entries" }, t("back"))), h("section", { class: "panel" }, h("h2", { class: "text" }, question ?? t("no_text")), h("p", { class: "text" }, answer ?? t("no_text")), facts(times),
    deeds(entry, () => { location.hash = "#/entries"; }))];
  if (way) {
    const edit = form(door(`${way} /admin/entries/{entry}`).body, told);
    const save = async (event) => {
      event.preventDefault();
      try { await call(way, path, edit.read()); toast(t("done")); await one(place, entry); } catch (trouble) { toast(trouble.message, true); }
    };
    parts.push(h("form", { class: "panel", onsubmit: save }, h("h2", {}, t("edit")), edit.fields, h("button", { class: "main", type: "submit" }, t("save"))));
  }
  put(place, parts);
}
