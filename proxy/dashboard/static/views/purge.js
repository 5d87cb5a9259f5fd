import { door, post } from "../api.js";
import { dialog, h, put, toast } from "../dom.js";
import { facts, form } from "../form.js";
import { t } from "../words.js";

// Counts first, deletes then: the button that deletes is there only for what was counted.
export async function show(place) {
  const asked = form(door("POST /admin/purge").body, {}, ["dry_run"]);
  const told = h("div", { "aria-live": "polite" });
  const fail = (trouble) => put(told, h("p", { class: "note bad" }, trouble.message));
  const count = async (event) => {
    event.preventDefault();
    try {
      const body = asked.read();
      put(told, h("div", { class: "panel" }, h("h2", {}, t("would_purge")), facts(await post("/admin/purge", { ...body, dry_run: true })),
        h("button", { type: "button", class: "danger", onclick: () => purge(body) }, t("purge_now"))));
    } catch (trouble) { fail(trouble); }
  };
  const purge = async (body) => {
    const sure = await dialog(t("purge_sure"), [facts(body), h("p", {}, t("delete_entry_why"))], [[t("purge_now"), true, "danger"], [t("cancel"), false]]);
    if (!sure) return;
    try {
      put(told, h("div", { class: "panel" }, h("h2", {}, t("purged")), facts(await post("/admin/purge", { ...body, dry_run: false }))));
      toast(t("purged"));
    } catch (trouble) { fail(trouble); }
  };
  const box = h("form", { class: "panel", onsubmit: count, oninput: () => put(told) }, h("div", { class: "fields" }, asked.fields), h("button", { class: "main", type: "submit" }, t("count_first")));
  put(place, h("p", { class: "lead" }, t("purge_lead")), box, told);
}
