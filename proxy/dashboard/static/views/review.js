import { call, get, may, post } from "../api.js";
import { dialog, h, put, toast } from "../dom.js";
import { t, when } from "../words.js";

export async function show(place) {
  const told = await get("/admin/review");
  const again = () => show(place);
  const act = async (work, words) => {
    try { await work(); toast(words); } catch (trouble) { toast(trouble.message, true); }
    await again();
  };
  const remove = async (entry) => {
    const sure = await dialog(t("delete_entry"), h("p", {}, t("delete_entry_why")), [[t("delete"), true, "danger"], [t("cancel"), false]]);
    if (sure) await act(() => call("DELETE", `/admin/entries/${entry}`), t("was_deleted"));
  };
  const one = (each, out) => h("article", { class: "panel" },
    h("p", {}, h("strong", { class: "text" }, each.question ?? t("no_text"))),
    h("p", { class: "text clip" }, each.answer ?? t("no_text")),
    each.comments?.length ? [h("p", { class: "soft" }, t("comments")), h("ul", {}, each.comments.map((words) => h("li", { class: "text" }, words)))] : null,
    h("p", {}, h("span", { class: out ? "tag bad" : "tag warn" }, each.reason), each.tenant ? h("span", { class: "tag" }, each.tenant) : null,
      each.model ? h("span", { class: "tag" }, each.model) : null, h("span", { class: "soft" }, `${when(each.at_s)} · `), h("span", { class: "mono soft" }, each.entry)),
    h("div", { class: "row" },
      out && may("POST /admin/entries/{entry}/release") ? h("button", { type: "button", onclick: () => act(() => post(`/admin/entries/${each.entry}/release`), t("was_released")) }, t("release")) : null,
      !out && may("POST /admin/entries/{entry}/quarantine") ? h("button", { type: "button", onclick: () => act(() => post(`/admin/entries/${each.entry}/quarantine`), t("was_quarantined")) }, t("quarantine")) : null,
      may("DELETE /admin/entries/{entry}") ? h("button", { type: "button", class: "danger", onclick: () => remove(each.entry) }, t("delete")) : null));
  const list = (title, all, out) => h("section", {}, h("h2", {}, `${title} (${all.length})`), all.length ? all.map((each) => one(each, out)) : h("p", { class: "empty" }, t("nothing_yet")));
  put(place, h("p", { class: "lead" }, t("review_lead")), h("div", { class: "columns" }, list(t("complaints"), told.queue, false), list(t("quarantined"), told.quarantined, true)));
}
