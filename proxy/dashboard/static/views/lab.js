import { get, post } from "../api.js";
import { meter } from "../chart.js";
import { field, h, put, table } from "../dom.js";
import { percent, t } from "../words.js";

const kept = { asked: "", stored: "", system: "", tenant: "" };

export async function show(place) {
  const input = (name, rows, more) => h(rows ? "textarea" : "input", { rows, value: kept[name], oninput: (event) => { kept[name] = event.target.value; }, ...more });
  const asked = input("asked", 2, { required: true, maxlength: 8000 }), stored = input("stored", 2, { required: true, maxlength: 8000 });
  const system = input("system", 2, { maxlength: 20000 }), tenant = input("tenant", 0, { maxlength: 256 });
  const told = h("div", { "aria-live": "polite" });
  const send = async (event) => {
    event.preventDefault();
    const body = { asked: kept.asked, stored: kept.stored };
    if (kept.system) body.system = kept.system;
    if (kept.tenant) body.tenant = kept.tenant;
    put(told, h("p", { class: "soft" }, t("loading")));
    try { put(told, result(await post("/admin/lab", body))); } catch (trouble) { put(told, h("p", { class: "note bad" }, trouble.message)); }
  };
  const swap = () => { [kept.asked, kept.stored] = [kept.stored, kept.asked]; asked.value = kept.asked; stored.value = kept.stored; };
  const measured = (await get("/admin/trust")).measured.map((each) => each.tenant);
  tenant.setAttribute("list", "tenants");
  put(place, h("p", { class: "lead" }, t("lab_lead")), h("form", { class: "panel", onsubmit: send },
    h("div", { class: "columns" }, h("div", {}, field(t("asked"), asked)), h("div", {}, field(t("stored"), stored))),
    h("div", { class: "columns" }, h("div", {}, field(t("system_prompt"), system)), h("div", {}, field(t("as_tenant"), tenant))),
    h("datalist", { id: "tenants" }, [...new Set(measured)].map((name) => h("option", { value: name }))),
    h("div", { class: "row" }, h("button", { class: "main", type: "submit" }, t("compare")), h("button", { type: "button", onclick: swap }, t("swap")))), told);
}

function result(told) {
  const seen = told.candidate;
  const facts = [
    [t("likeness"), told.likeness ? t(told.likeness) : "–"],
    [t("similarity"), told.similarity === null ? "–" : told.similarity.toFixed(4)],
    [t("threshold"), told.threshold === null ? "–" : told.threshold.toFixed(2)],
    [t("reader"), seen?.reader ?? "–"], [t("p_right"), percent(seen?.p_right, 2)], [t("bar"), percent(seen?.bar, 2)]];
  const far = (title, each) => [title, each.read, each.write, each.reason, each.traits.join(", ") || t("none")];
  return h("div", { class: "panel" },
    h("p", { class: told.served ? "note good" : "note" }, h("strong", {}, told.served ? t("would_serve") : t("would_ask")), h("br"), told.why),
    told.similarity === null ? null : meter(told.similarity, told.threshold, t("similarity_label", told.similarity.toFixed(3), told.threshold ?? "–")),
    h("div", { class: "columns" },
      h("div", {}, table([t("what"), t("value")], facts, "")),
      h("div", {}, h("h2", {}, t("objections")), seen?.against.length
        ? h("ul", {}, seen.against.map((each) => h("li", {}, h("strong", {}, each.by), ": ", each.reason))) : h("p", { class: "empty" }, t("no_objections")))),
    h("h2", {}, t("policy")), table([t("question"), t("reads"), t("writes"), t("why"), t("traits")], [far(t("asked"), told.asked), far(t("stored"), told.stored)], ""));
}
