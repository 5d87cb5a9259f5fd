// The frame: who is here, which views there are, and which one is shown.
import { enter, login, logout, may, session } from "./api.js";
import { field, h, put, toast } from "./dom.js";
import { lang, speak, t } from "./words.js";
import * as curated from "./views/curated.js";
import * as entries from "./views/entries.js";
import * as lab from "./views/lab.js";
import * as overview from "./views/overview.js";
import * as playground from "./views/playground.js";
import * as purge from "./views/purge.js";
import * as review from "./views/review.js";
import * as system from "./views/system.js";

// name → [module, the doors that it cannot do without]
const VIEWS = {
  overview: [overview, ["GET /admin/stats", "GET /admin/report"]],
  entries: [entries, ["GET /admin/entries"]],
  curated: [curated, ["GET /admin/curated"]],
  review: [review, ["GET /admin/review"]],
  purge: [purge, ["POST /admin/purge"]],
  lab: [lab, ["POST /admin/lab"]],
  playground: [playground, []],
  system: [system, ["GET /admin/settings"]],
};

const main = document.getElementById("main");
let leave = () => {};

function views() {
  return Object.keys(VIEWS).filter((name) => VIEWS[name][1].every(may));
}

function here() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  const all = views();
  return { name: all.includes(name) ? name : all[0], rest: rest.map(decodeURIComponent) };
}

function frame() {
  document.documentElement.lang = lang() === "zh" ? "zh-CN" : "en";
  document.getElementById("skip").textContent = t("skip");
  const shown = session() ? here().name : null;
  put(document.getElementById("nav"), session() ? views().map((name) =>
    h("a", { href: `#/${name}`, "aria-current": name === shown ? "page" : null }, t(name))) : []);
  const theme = document.documentElement.dataset.theme ?? "auto";
  const next = { auto: "light", light: "dark", dark: "auto" }[theme];
  put(document.getElementById("tools"),
    session() ? h("span", { class: "tag", title: t("role") }, `${session().name} · ${session().role}`) : null,
    h("button", { type: "button", class: "small", onclick: () => paint(next), "aria-label": `${t("theme")}: ${t(`theme_${theme}`)}` }, t(`theme_${theme}`)),
    h("button", { type: "button", class: "small", lang: lang() === "zh" ? "en" : "zh-CN", "aria-label": t("language_label"), onclick: () => { speak(lang() === "zh" ? "en" : "zh"); show(); } }, t("language")),
    session() && !session().tokenless ? h("button", { type: "button", class: "small", onclick: leaveHouse }, t("sign_out")) : null);
}

function paint(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("theme", theme); } catch { /* for this page only */ }
  frame();
}

async function show(focus = false) {
  leave();
  leave = () => {};
  frame();
  if (!session()) return;
  const { name, rest } = here();
  document.title = `${t(name)} · Rejoinder`;
  put(main, h("h1", {}, t(name)), h("div", { id: "view" }));
  if (focus) main.focus();
  const place = document.getElementById("view");
  try {
    leave = (await VIEWS[name][0].show(place, rest)) ?? (() => {});
  } catch (trouble) {
    put(place, h("p", { class: "note bad" }, t("trouble", trouble.message)), h("button", { type: "button", onclick: () => show() }, t("try_again")));
  }
}

function gate(words) {
  leave();
  leave = () => {};
  frame();
  const token = h("input", { type: "password", autocomplete: "current-password", required: true, id: "token" });
  const send = async (event) => {
    event.preventDefault();
    try {
      await login(token.value);
      show();
    } catch (trouble) {
      token.value = "";
      put(told, h("p", { class: "note bad" }, trouble.message));
      token.focus();
    }
  };
  const told = h("div", { role: "alert" }, words ? h("p", { class: "note bad" }, words) : null);
  put(main, h("form", { class: "panel login", onsubmit: send }, h("h1", {}, t("sign_in")), h("p", { class: "lead" }, t("sign_in_lead")), told,
    field(t("token"), token), h("button", { class: "main", type: "submit" }, t("sign_in"))));
  token.focus();
}

async function leaveHouse() {
  try { await logout(); } catch (trouble) { toast(trouble.message, true); }
  begin();
}

async function begin() {
  try {
    await enter();
    await show();
  } catch (trouble) {
    if (trouble.status === 401) gate();
    else {
      frame();
      put(main, h("div", { class: "panel login" }, h("h1", {}, t("cannot_enter")), h("p", { class: "note bad" }, trouble.message),
        h("button", { type: "button", onclick: begin }, t("try_again"))));
    }
  }
}

document.addEventListener("signed-out", () => { if (session()) location.reload(); });
window.addEventListener("hashchange", () => show(true));
try { const kept = localStorage.getItem("theme"); if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept; } catch { /* as the system says */ }
begin();
