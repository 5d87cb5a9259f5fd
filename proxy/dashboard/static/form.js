// Fields for a JSON Schema, as /admin/openapi.json has it: what a door wants is asked for, and nothing else.
import { field, h } from "./dom.js";
import { named, t } from "./words.js";

const LONG = 400; // characters from which a text gets an area

function plain(schema) {
  const all = schema.anyOf ?? (Array.isArray(schema.type) ? schema.type.map((type) => ({ ...schema, type })) : null);
  return all ? { ...schema, anyOf: undefined, ...all.find((each) => each.type !== "null") } : schema;
}

function control(schema, value, required) {
  const text = value === undefined || value === null ? "" : value;
  if (schema.enum) return h("select", {}, required ? null : h("option", { value: "" }, "–"), schema.enum.map((each) => h("option", { value: each, selected: each === (value ?? schema.default) }, each)));
  if (schema.type === "boolean") return h("input", { type: "checkbox", checked: Boolean(value ?? schema.default) });
  if (schema.type === "integer" || schema.type === "number") return h("input", { type: "number", value: text, required, min: schema.minimum, max: schema.maximum, step: schema.type === "integer" ? 1 : "any" });
  if (schema.type === "array") return h("textarea", { rows: 3, required, value: (value ?? []).map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join("\n") });
  if (schema.maxLength > LONG) return h("textarea", { rows: 4, required, maxlength: schema.maxLength, value: text });
  return h("input", { type: "text", required, maxlength: schema.maxLength, value: text });
}

// -> {fields, read}: elements to show, and what stands in them; empty ones are left out, or null where they were not.
export function form(schema, values = {}, hidden = []) {
  const known = Object.entries(schema?.properties ?? {}).filter(([name]) => !hidden.includes(name));
  const parts = known.map(([name, given]) => {
    const each = plain(given), required = (schema.required ?? []).includes(name);
    const input = control(each, values[name], required);
    const hint = each.type === "array" ? `${named(name)} (${t("one_a_line")})` : named(name);
    return { name, each, input, element: h("div", { title: given.description }, field(hint, input)) };
  });
  const read = () => {
    const body = {};
    for (const { name, each, input } of parts) {
      const text = each.type === "boolean" ? "" : input.value.trim();
      if (each.type === "boolean") { if (input.checked || values[name] !== undefined) body[name] = input.checked; }
      else if (each.type === "array") { if (text || values[name]?.length) body[name] = text ? text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => (each.items?.type === "object" ? JSON.parse(line) : line)) : []; }
      else if (text) body[name] = each.type === "integer" || each.type === "number" ? Number(text) : text;
      else if (values[name]) body[name] = null;
    }
    return body;
  };
  return { fields: parts.map(({ element }) => element), read };
}

export function facts(told) {
  return h("dl", { class: "facts" }, Object.entries(told).filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) =>
    [h("dt", {}, named(name)), h("dd", { class: "text" }, typeof value === "object" ? JSON.stringify(value) : String(value))]));
}
