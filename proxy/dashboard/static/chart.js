// Small drawings in SVG; every one of them is told in words, too.
import { h, svg } from "./dom.js";

export const KINDS = ["session", "recent", "similar", "curated", "miss"];

// samples: [{session, recent, similar, curated, miss}], the oldest first; counts in equal spans of time.
export function stacked(samples, room, label, unit) {
  const width = 600, height = 150, floor = 132, top = 14;
  const most = Math.max(1, ...samples.map((each) => KINDS.reduce((sum, kind) => sum + (each[kind] ?? 0), 0)));
  const step = width / room;
  const bars = samples.flatMap((each, place) => {
    let y = floor;
    return KINDS.map((kind) => {
      const tall = ((each[kind] ?? 0) / most) * (floor - top);
      y -= tall;
      return tall > 0 ? svg("rect", { class: kind, x: (room - samples.length + place) * step + 0.5, y, width: Math.max(1, step - 1), height: tall }) : null;
    });
  });
  return [h("p", { class: "soft scale" }, `${most} ${unit}`), svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("line", { x1: 0, x2: width, y1: floor, y2: floor }), bars)];
}

export function bars(counts, format) {
  const all = Object.entries(counts);
  const most = Math.max(1, ...all.map(([, count]) => count));
  return h("ul", { class: "bars" }, all.map(([name, count]) => h("li", {}, h("span", {}, name),
    svg("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "full", width: 100, height: 12, rx: 3 }), svg("rect", { class: "part", width: (100 * count) / most, height: 12, rx: 3 })),
    h("span", {}, format(count)))));
}

// A value between 0 and 1, and the mark that it must reach.
export function meter(value, mark, label) {
  return svg("svg", { class: "meter", viewBox: "0 0 400 26", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("rect", { class: "track", y: 7, width: 400, height: 12, rx: 6 }),
    svg("rect", { class: "value", y: 7, width: Math.max(0, Math.min(1, value)) * 400, height: 12, rx: 6 }),
    mark === null || mark === undefined ? null : svg("line", { class: "mark", x1: mark * 400, x2: mark * 400, y1: 1, y2: 25 }));
}
