import { call, door, doors, get, may, query } from "../api.js";
import { dialog, h, put, table, toast, wide } from "../dom.js";
import { form } from "../form.js";
import { t } from "../words.js";

const LIMIT = 50;

// The doors of one curated answer; the name in braces is the server's.
const ofOne = (method) => doors().find((each) => new RegExp(`^${method} /admin/curated/\\{\\w+\\}$`).test(each));

export async function show(place) {
  const list = h("div", {}), editor = h("div", {});
  const pages = [null];
  const change = ofOne("PUT") ?? ofOne("PATCH"), drop = ofOne("DELETE");
  const path = (name, each) => name.split(" ")[1].replace(/\{(\w+)\}/, (_, key) => encodeURIComponent(each[key] ?? each.id ?? each.entry));
  const draw = async () => {
    const told = await get(`/admin/curated${query({ limit: LIMIT, cursor: pages.at(-1) })}`);
    put(list, table([t("question"), t("answer"), t("tags"), t("actions")], told.items.map((each) => [wide([h("strong", {}, each.question), (each.wordings ?? []).map((words) => h("div", { class: "soft" }, words))]),
      wide(h("div", { class: "text clip" }, each.answer)), (each.tags ?? []).map((tag) => h("span", { class: "tag" }, tag)),
      h("div", { class: "row" }, change && may(change) ? h("button", { type: "button", class: "small", onclick: () => edit(each) }, t("edit")) : null,
        drop && may(drop) ? h("button", { type: "button", class: "small danger", onclick: () => remove(each) }, t("delete")) : null)]), t("nothing_yet")),
    h("div", { class: "row" }, h("button", { type: "button", disabled: pages.length === 1, onclick: () => { pages.pop(); draw(); } }, t("before")),
      h("button", { type: "button", disabled: !told.next, onclick: () => { pages.push(told.next); draw(); } }, t("next")), h("span", { class: "soft" }, t("page", pages.length))));
  };
  const edit = (each) => {
    const way = each ? change : "POST /admin/curated";
    const asked = form(door(way).body, each ?? {});
    const save = async (event) => {
      event.preventDefault();
      try {
        await call(way.split(" ")[0], each ? path(way, each) : "/admin/curated", asked.read());
        toast(t("done"));
        put(editor);
        await draw();
      } catch (trouble) { toast(trouble.message, true); }
    };
    put(editor, h("form", { class: "panel", onsubmit: save }, h("h2", {}, each ? t("edit") : t("new_curated")), asked.fields,
      h("div", { class: "row" }, h("button", { class: "main", type: "submit" }, t("save")), h("button", { type: "button", onclick: () => put(editor) }, t("cancel")))));
    editor.querySelector("input, textarea, select")?.focus();
  };
  const remove = async (each) => {
    const sure = await dialog(t("delete_entry"), h("p", { class: "text" }, each.question), [[t("delete"), true, "danger"], [t("cancel"), false]]);
    if (!sure) return;
    try { await call("DELETE", path(drop, each)); toast(t("was_deleted")); await draw(); } catch (trouble) { toast(trouble.message, true); }
  };
  put(place, h("p", { class: "lead" }, t("curated_lead")), may("POST /admin/curated") ? h("p", {}, h("button", { type: "button", class: "main", onclick: () => edit(null) }, t("new_curated"))) : null, editor, list);
  await draw();
}
