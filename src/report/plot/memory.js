(() => {
  const { unit, kinds, categories, addresses, bytes, of, names, phases, roles, sites } = DATA;
  const count = kinds.length;
  // Blocks are grouped by their roles, or without roles by the sites that hold most; the last group is the rest.
  const plain = sites.length > 0;
  const groups = plain ? sites.map((n) => names[n] || "no frames recorded") : roles;
  const tints = [...groups.map((name, r) => (plain ? "site" + r : name)), "others"];
  const order = plain ? sites.map((_, r) => r) : DATA.order;
  const NONE = groups.length;
  const siteOf = new Map(sites.map((n, r) => [n, r]));
  const $ = (id) => document.getElementById(id);
  const size = (n) => {
    for (const [name, scale] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) if (n >= scale) return (n / scale).toFixed(2) + " " + name;
    return n + " B";
  };
  const role = (i) => {
    if (plain) return siteOf.has(of[i]) ? siteOf.get(of[i]) : NONE;
    return categories[i] === "-" ? NONE : Number(categories[i]);
  };

  // State: blocks by address, and what is reserved as stretches that neither touch nor overlap.
  const fresh = () => ({ blocks: new Map(), reserved: new Map() });
  const copy = (s) => ({ blocks: new Map(s.blocks), reserved: new Map(s.reserved) });
  const cut = (reserved, from, to) => {
    for (const [start, end] of [...reserved]) {
      if (end <= from || start >= to) continue;
      reserved.delete(start);
      if (start < from) reserved.set(start, from);
      if (end > to) reserved.set(to, end);
    }
  };
  const apply = (state, i) => {
    const address = addresses[i];
    switch (kinds[i]) {
      case "A": state.blocks.set(address, i); break;
      case "B": if (state.blocks.has(address)) state.blocks.set(address, i); break;
      case "F": state.blocks.delete(address); break;
      case "R": state.reserved.set(address, address + bytes[i] / unit); break;
      case "S": cut(state.reserved, address, address + bytes[i] / unit); break;
    }
  };

  // One pass: totals after every event, and a copy of the state every so often.
  const every = Math.max(1024, Math.ceil(count / 64));
  const kept = [];
  const allocated = new Float64Array(count), reserved = new Float64Array(count);
  const byRole = Array.from({ length: NONE + 1 }, () => new Float64Array(count));
  {
    const state = fresh(), now = new Float64Array(NONE + 1);
    let held = 0, all = 0;
    for (let i = 0; i < count; i++) {
      if (i % every === 0) kept.push(copy(state));
      const old = state.blocks.get(addresses[i]);
      if (kinds[i] === "A") { now[role(i)] += bytes[i]; all += bytes[i]; }
      if (kinds[i] === "F" && old !== undefined) { now[role(old)] -= bytes[old]; all -= bytes[old]; }
      if (kinds[i] === "B" && old !== undefined) { now[role(old)] -= bytes[old]; now[role(i)] += bytes[i]; }
      if (kinds[i] === "R") held += bytes[i];
      if (kinds[i] === "S") held -= bytes[i];
      apply(state, i);
      allocated[i] = all; reserved[i] = held;
      now.forEach((v, r) => { byRole[r][i] = v; });
    }
  }
  const stateAt = (i) => {
    if (!count) return fresh();
    const k = Math.floor(i / every), state = copy(kept[k]);
    for (let j = k * every; j <= i; j++) apply(state, j);
    return state;
  };
  const highest = (values) => values.reduce((best, v, i) => (v > values[best] ? i : best), 0);
  const peak = highest(allocated), full = highest(reserved);
  const top = Math.max(1, allocated[peak] || 0, reserved[full] || 0);
  const phase = (i) => { let found = ""; for (const [start, name] of phases) { if (start > i) break; found = name; } return found; };

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const colours = () => {
    return { role: tints.map(style), ground: style("ground"), text: style("text"), quiet: style("quiet"), line: style("line"),
      hole: style("hole"), edge: style("edge"), reserved: style("reserved"), cursor: style("cursor") };
  };

  const legend = $("legend");
  const entry = (text, name, colour) => {
    const span = document.createElement("span");
    span.textContent = text; span.className = name; span.style.setProperty("--swatch", colour);
    legend.append(span);
  };
  for (const r of [...order, NONE]) if (byRole[r].some((v) => v > 0)) entry(r === NONE ? "others" : groups[r], "", `var(--${tints[r]})`);
  entry("reserved", "reserved", "var(--reserved)");
  entry("hole: reserved, not allocated", "hole", "");

  const canvas = (element, height) => {
    const ratio = devicePixelRatio || 1, width = element.clientWidth;
    element.width = Math.round(width * ratio); element.height = Math.round(height * ratio);
    element.style.height = height + "px";
    const g = element.getContext("2d");
    g.scale(ratio, ratio); g.font = "12px system-ui, sans-serif"; g.textBaseline = "middle";
    return [g, width];
  };

  const LEFT = 76, BOTTOM = 26, HEIGHT = 320;
  let at = peak;
  const drawChart = () => {
    const c = colours(), [g, width] = canvas($("chart"), HEIGHT);
    const inner = width - LEFT - 8, base = HEIGHT - BOTTOM, y = (v) => base - (v / top) * (base - 10);
    g.textAlign = "right";
    const step = 2 ** Math.floor(Math.log2(top / 4));
    for (let v = 0; v <= top; v += step) {
      g.fillStyle = c.line; g.fillRect(LEFT, Math.round(y(v)), inner, 1);
      g.fillStyle = c.quiet; g.fillText(size(v), LEFT - 8, y(v));
    }
    const columns = Math.max(1, Math.min(Math.floor(inner), count)), wide = inner / columns;
    for (let x = 0; x < columns && count; x++) {
      const from = Math.floor((x * count) / columns), to = Math.max(from + 1, Math.floor(((x + 1) * count) / columns));
      let best = from, most = reserved[from];
      for (let i = from; i < to; i++) { if (allocated[i] > allocated[best]) best = i; most = Math.max(most, reserved[i]); }
      let below = 0;
      const left = LEFT + x * wide;
      for (const r of [...order, NONE]) {
        const v = byRole[r][best];
        if (v <= 0) continue;
        g.fillStyle = c.role[r];
        g.fillRect(left, y(below + v), wide + 0.5, y(below) - y(below + v));
        below += v;
      }
      g.fillStyle = c.reserved; g.fillRect(left, y(most) - 1, wide + 0.5, 2);
    }
    for (let i = 0; i < count; i++) if (kinds[i] === "O") { g.fillStyle = c.cursor; g.fillText("\u2715", LEFT + ((i + 0.5) / count) * inner + 5, 8); }
    g.fillStyle = c.cursor; g.fillRect(Math.round(LEFT + ((at + 0.5) / Math.max(1, count)) * inner), 4, 1.5, base - 4);
    g.fillStyle = c.quiet; g.textAlign = "left"; g.fillText("event 1", LEFT, HEIGHT - 10);
    g.textAlign = "right"; g.fillText(String(count), LEFT + inner, HEIGHT - 10);
  };

  // The map: segments by address, one after another, broken where a row is full.
  let boxes = [];
  const drawMap = () => {
    const state = stateAt(at), c = colours(), element = $("map");
    const segments = [...state.reserved].sort((a, b) => a[0] - b[0]);
    // Stretches that were mapped piece by piece are one.
    const merged = [];
    for (const [start, end] of segments) {
      const last = merged[merged.length - 1];
      if (DATA.mapped && last && last[1] === start) last[1] = end; else merged.push([start, end]);
    }
    const blocks = [...state.blocks].sort((a, b) => a[0] - b[0]);
    const total = merged.reduce((sum, [s, e]) => sum + e - s, 0) || 1;
    const width = element.clientWidth, ROW = 22, GAP = 4, perRow = Math.max(total / 20, total / Math.max(1, merged.length * 1.5));
    const scale = (width - 2) / perRow;
    boxes = [];
    let x = 0, y = 0, b = 0;
    const place = (from, to, what) => {
      // Cuts a stretch at the ends of rows.
      let start = from;
      while (start < to) {
        const room = (width - x) / scale, end = Math.min(to, start + Math.max(room, 1e-9));
        boxes.push([x, y, Math.max((end - start) * scale, 0.5), what]);
        x += (end - start) * scale; start = end;
        if (x >= width - 0.01 && start < to) { x = 0; y += ROW + GAP; }
      }
    };
    const holes = [];
    for (const [start, end] of merged) {
      if (x > 0 && x + Math.min((end - start) * scale, 12) > width) { x = 0; y += ROW + GAP; }
      let cursor = start;
      const hole = (to) => { if (to > cursor) { holes.push((to - cursor) * unit); place(cursor, to, { hole: true, address: cursor, bytes: (to - cursor) * unit, of: [start, end] }); } };
      while (b < blocks.length && blocks[b][0] < end) {
        const [address, i] = blocks[b++];
        if (address < start) continue;
        hole(address);
        const stop = Math.min(end, address + Math.ceil(bytes[i] / unit));
        place(address, stop, { i, address, bytes: bytes[i], of: [start, end] });
        cursor = stop;
      }
      hole(end);
      x += 5;
    }
    const [g] = canvas(element, y + ROW + 2);
    for (const [left, above, long, what] of boxes) {
      g.fillStyle = what.hole ? c.hole : c.role[role(what.i)];
      g.fillRect(left, above, Math.max(long - (long > 3 ? 0.75 : 0), 0.5), ROW);
      if (what.hole && long > 4) { g.strokeStyle = c.edge; g.setLineDash([2, 2]); g.strokeRect(left + 0.5, above + 0.5, long - 1.75, ROW - 1); g.setLineDash([]); }
    }
    const largest = blocks.map(([, i]) => i).sort((p, q) => bytes[q] - bytes[p]).slice(0, 20);
    table(largest);
    say(merged.length, holes);
  };
  const said = { A: "allocated", F: "freed", B: "is now", R: "reserved", S: "gave back", O: "failed to allocate" };
  const say = (segments, holes) => {
    if (!count) { $("now").textContent = "Nothing happened."; return; }
    const name = names[of[at]];
    const what = `${said[kinds[at]]} ${size(bytes[at])}${name ? ": " + name : ""}`;
    const where = phase(at);
    const free = holes.reduce((sum, h) => sum + h, 0);
    $("now").textContent = `Event ${at + 1} of ${count}${where ? ", " + where : ""}: ${what}. Allocated ${size(allocated[at])}, reserved ${size(reserved[at])} in ${segments} segment${segments === 1 ? "" : "s"}; `
      + `${holes.length} hole${holes.length === 1 ? "" : "s"}, ${size(free)} together, the largest ${size(holes.reduce((most, h) => Math.max(most, h), 0))}.`;
  };
  const table = (largest) => {
    const roleOf = (i) => (plain ? [] : [roles[role(i)] || ""]);
    const rows = largest.map((i) => [String(i + 1), names[of[i]] || "", ...roleOf(i), size(bytes[i])]);
    const line = (cells, kind) => { const tr = document.createElement("tr"); for (const cell of cells) { const td = document.createElement(kind); td.textContent = cell; tr.append(td); } return tr; };
    const head = document.createElement("thead"), body = document.createElement("tbody");
    head.append(line(["since event", "tensor", ...(plain ? [] : ["role"]), "bytes"], "th"));
    body.append(...rows.map((r) => line(r, "td")));
    $("largest").replaceChildren(head, body);
  };

  const tip = $("tip");
  const show = (event, lines) => {
    tip.replaceChildren();
    lines.forEach((text, i) => { const row = document.createElement(i ? "span" : "b"); row.textContent = text; tip.append(row); });
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const x = event.clientX + 16 + width < innerWidth ? event.clientX + 16 : event.clientX - 16 - width;
    const y = event.clientY + 16 + height < innerHeight ? event.clientY + 16 : event.clientY - 16 - height;
    tip.style.left = Math.max(4, x) + "px"; tip.style.top = Math.max(4, y) + "px";
  };
  const hide = () => { tip.hidden = true; };
  const eventAt = (event) => {
    const box = $("chart").getBoundingClientRect();
    const i = Math.floor(((event.clientX - box.left - LEFT) / (box.width - LEFT - 8)) * count);
    return Math.max(0, Math.min(count - 1, i));
  };
  $("chart").addEventListener("pointermove", (event) => {
    if (!count) return;
    const i = eventAt(event), lines = [`event ${i + 1}${phase(i) ? ", " + phase(i) : ""}`, `${said[kinds[i]]} ${size(bytes[i])} ${names[of[i]] || ""}`,
      "allocated " + size(allocated[i]), "reserved " + size(reserved[i])];
    for (const r of [...order, NONE]) if (byRole[r][i] > 0) lines.push((r === NONE ? "others" : groups[r]) + " " + size(byRole[r][i]));
    show(event, lines);
  });
  $("chart").addEventListener("pointerleave", hide);
  $("chart").addEventListener("click", (event) => go(eventAt(event)));
  $("map").addEventListener("pointermove", (event) => {
    const box = $("map").getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const found = boxes.find(([left, above, long]) => x >= left && x <= left + Math.max(long, 2) && y >= above && y <= above + 22);
    if (!found) { hide(); return; }
    const what = found[3], [start, end] = what.of;
    const inside = `in a segment of ${size((end - start) * unit)}, at ${size((what.address - start) * unit)}`;
    if (what.hole) show(event, ["hole", size(what.bytes), inside]);
    else show(event, [names[of[what.i]] || "block", size(what.bytes), plain ? "" : roles[role(what.i)] || "", inside, `since event ${what.i + 1}`].filter((t) => t));
  });
  $("map").addEventListener("pointerleave", hide);

  let pending = false;
  const draw = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; drawChart(); drawMap(); });
  };
  const go = (i) => { at = i; $("at").value = String(i); draw(); };
  $("at").max = String(Math.max(0, count - 1));
  $("at").addEventListener("input", () => go(Number($("at").value)));
  $("peak").addEventListener("click", () => go(peak));
  $("full").addEventListener("click", () => go(full));
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme:dark)").addEventListener("change", draw);
  go(peak);
})();
