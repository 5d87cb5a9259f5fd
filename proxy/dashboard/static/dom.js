// The only way an element is made here. Text goes in as text: nothing that was stored can become HTML.
const SVG = "http://www.w3.org/2000/svg";

export function h(name, props, ...children) {
  return fill(document.createElement(name), props, children);
}

export function svg(name, props, ...children) {
  return fill(document.createElementNS(SVG, name), props, children);
}

function fill(element, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "disabled" || key === "selected") element[key] = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...flat(children));
  return element;
}

function flat(children) {
  return children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false)
    .map((each) => (each instanceof Node ? each : document.createTextNode(String(each))));
}

export function put(place, ...children) {
  place.replaceChildren(...flat(children));
  return place;
}

export function table(heads, rows, empty) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const cell = (each, name) => (each && each.cell !== undefined ? h(name, { class: each.kind }, each.cell) : h(name, {}, each));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": heads.map((each) => each?.cell ?? each).join(", ") },
    h("table", {}, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", class: head?.kind }, head?.cell ?? head)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((each) => cell(each, "td")))))));
}

export const n = (cell) => ({ cell, kind: "n" });
export const wide = (cell) => ({ cell, kind: "wide" });

export function field(label, input) {
  return h("label", { class: input.type === "checkbox" ? "check" : null }, input.type === "checkbox" ? [input, label] : [label, input]);
}

let toastTimer = 0;
export function toast(words, bad = false) {
  const place = document.getElementById("toast");
  put(place, h("p", { class: bad ? "bad" : null }, words));
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => put(place), bad ? 12000 : 6000);
}

export function dialog(title, body, buttons) {
  return new Promise((resolve) => {
    const box = h("dialog", { "aria-labelledby": "dialog-title" });
    const done = (value) => { box.close(); box.remove(); resolve(value); };
    box.addEventListener("cancel", (event) => { event.preventDefault(); done(null); });
    box.append(h("h2", { id: "dialog-title" }, title), ...flat([body]),
      h("div", { class: "row" }, buttons.map(([words, value, kind]) => h("button", { type: "button", class: kind, onclick: () => done(typeof value === "function" ? value() : value) }, words))));
    document.body.append(box);
    box.showModal();
  });
}
