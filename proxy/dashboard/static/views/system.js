import { get, may, query } from "../api.js";
import { field, h, n, put, table, wide } from "../dom.js";
import { t, when } from "../words.js";

export async function show(place) {
  const all = (await get("/admin/settings")).items;
  const filter = h("input", { type: "search", oninput: () => draw() });
  const changed = h("input", { type: "checkbox", onchange: () => draw() });
  const settings = h("div", {}), audit = h("div", {});
  const draw = () => {
    const wanted = filter.value.toLowerCase();
    const rows = all.filter((each) => `${each.name} ${each.help}`.toLowerCase().includes(wanted) && (!changed.checked || each.origin !== "default"));
    put(settings, table([t("setting"), t("value"), t("origin"), t("help")],
      rows.map((each) => [h("code", { class: "mono" }, each.name), wide(h("span", { class: "mono" }, each.value)), h("span", { class: each.origin === "default" ? "soft" : "tag" }, each.origin), wide(each.help)]), t("nothing_yet")));
  };
  draw();
  put(place, h("section", { class: "panel" }, h("p", { class: "lead" }, t("system_lead")),
    h("div", { class: "row" }, h("div", { class: "grow" }, field(t("filter"), filter)), field(t("changed_only"), changed)), settings), audit);
  if (!may("GET /admin/audit")) return;
  const lines = [];
  const page = async (cursor) => {
    const told = await get(`/admin/audit${query({ limit: 50, cursor })}`);
    lines.push(...told.items);
    put(audit, h("section", { class: "panel" }, h("h2", {}, t("audit")),
      table([n(t("when")), t("who"), t("what"), t("route"), t("outcome")], lines.map((each) => [n(when(each.at_s)), [each.who, h("br"), h("span", { class: "soft" }, each.role)],
        [each.did, each.note ? h("div", { class: "soft" }, each.note) : null], h("span", { class: "mono" }, `${each.method} ${each.path}`), h("span", { class: each.outcome === "done" ? "good" : "bad" }, each.outcome)]), t("no_audit")),
      told.next ? h("button", { type: "button", onclick: () => page(told.next) }, t("more")) : null));
  };
  await page();
}
