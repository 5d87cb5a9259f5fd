// Asks the admin API of the server that sent this page. The session is a cookie that no script can read.
const state = { session: null, routes: new Map() };

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

export async function call(method, path, body) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && state.session?.csrf) headers["X-CSRF-Token"] = state.session.csrf;
  let reply;
  try {
    reply = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin" });
  } catch (trouble) {
    throw new Refused(0, String(trouble.message ?? trouble));
  }
  let told = null;
  try { told = await reply.json(); } catch { /* no JSON: the status says enough */ }
  if (!reply.ok) {
    if (reply.status === 401 && path !== "/admin/login") document.dispatchEvent(new Event("signed-out"));
    throw new Refused(reply.status, told?.error?.message ?? `${reply.status} ${reply.statusText}`);
  }
  return told;
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body ?? {});

export async function enter() {
  state.session = await get("/admin/session");
  const told = await get("/admin/openapi.json");
  state.routes = new Map();
  for (const [path, operations] of Object.entries(told.paths))
    for (const [method, operation] of Object.entries(operations)) state.routes.set(`${method.toUpperCase()} ${path}`, {
      role: operation["x-role"], body: operation.requestBody?.content["application/json"].schema,
      query: Object.fromEntries((operation.parameters ?? []).filter((each) => each.in === "query").map((each) => [each.name, each.schema])) });
  return state.session;
}

export async function login(token) {
  await call("POST", "/admin/login", { token });
  return enter();
}

export async function logout() {
  await post("/admin/logout");
  state.session = null;
}

export const session = () => state.session;

const RANK = { read: 1, curate: 2, operate: 3 };
// Whether the server has this door, and this person may go through it.
export function may(name) {
  const known = state.routes.get(name);
  return known !== undefined && RANK[state.session.role] >= (RANK[known.role] ?? 1);
}

// What a door wants: {role, body, query}, as schemas. And the names of all of them.
export const door = (name) => state.routes.get(name);
export const doors = () => [...state.routes.keys()];

export const query = (values) => {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
};
