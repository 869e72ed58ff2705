// page.js - what the page of dmirun --web does (docs/web.md): it shows what comes as server-sent events, `members`
// and `threads`.  All text of theirs is set as text, never as HTML.
'use strict';

const SPAN = 300;        // seconds of the timeline at most
const SPANS = [[20, 5], [60, 15], [120, 30], [SPAN, 60]]; // its spans, and seconds from mark to mark
const UNLIMITED = 1e12;  // pages: that of the allocator has all addresses that there are
const LOG_LONGEST = 200; // lines
const LEGEND_LONGEST = 16; // processes: beside those of more, in their table, are the colours, too
const $ = (id) => document.getElementById(id);
const make = (name, className) => { const node = document.createElement(name); if (className) node.className = className; return node; };

// Changes the document only where it is different.
const text = (node, value) => { if (node.textContent !== value) node.textContent = value; };
const style = (node, name, value) => { if (node.style[name] !== value) node.style[name] = value; };
const kind = (node, value) => { if (node.className !== value) node.className = value; };

// ---- Numbers as text

// What is shown decides, which is rounded: no "1024 KiB", no "1000 ms".
function bytes(count) {
  for (const unit of ['B', 'KiB', 'MiB', 'GiB', 'TiB']) {
    let shown = count.toFixed(unit === 'B' ? 0 : 1);
    if (Number(shown) >= 100) shown = count.toFixed(0);
    if (Number(shown) < 1024 || unit === 'TiB') return `${shown} ${unit}`;
    count /= 1024;
  }
}
function duration(seconds) {
  for (const [times, digits, below, unit] of [[1e6, 0, 1000, 'us'], [1e3, 1, 100, 'ms'], [1e3, 0, 1000, 'ms'], [1, 1, 10, 's'], [1, 0, 100, 's']]) {
    const shown = (seconds * times).toFixed(digits);
    if (Number(shown) < below) return `${shown} ${unit}`;
  }
  return seconds < 6000 ? Math.floor(seconds / 60) + ' min' : Math.floor(seconds / 3600) + ' h';
}
// How long a process is there, which is known in whole seconds.
const age = (seconds) => seconds < 100 ? seconds.toFixed(0) + ' s' : duration(seconds);
const perSecond = (rate, unit) => rate === undefined ? '–' : unit === 'bytes' ? bytes(rate) + '/s' : rate.toFixed(rate < 9.95 && rate > 0 ? 1 : 0) + '/s';
const nameOf = (member) => String(member.process);

// ---- What is known

const known = { members: null, threads: null, at: 0, interval: 1, chosen: null, ended: false, names: new Map() };
const history = new Map(); // thread => { runs: [{ from, to, state }], label, order }

function rates(event) {
  const before = new Map((known.members ? known.members.members : []).map((member) => [member.member, member]));
  const seconds = known.members ? event.at - known.members.at : 0;
  for (const member of event.members) {
    const was = before.get(member.member);
    if (!was || !(seconds > 0)) continue;
    for (const [rate, count] of [['in', 'bytes_in'], ['out', 'bytes_out'], ['fault', 'faults']]) {
      if (member[count] === undefined || was[count] === undefined) continue;
      member[rate] = Math.max(0, member[count] - was[count]) / seconds;
    }
  }
}

// What each process sends to each other one, in bytes a second.
function flows(event) {
  const seconds = known.threads ? event.at - known.threads.at : 0;
  const before = new Map((known.threads ? known.threads.traffic : []).map((from) => [from.member, from.out]));
  for (const from of event.traffic) {
    const was = before.get(from.member);
    from.rate = {};
    if (!was || !(seconds > 0)) continue;
    for (const [to, count] of Object.entries(from.out)) {
      if (was[to] !== undefined) from.rate[to] = Math.max(0, count - was[to]) / seconds;
    }
  }
}

function log(line) {
  const item = make('li'), when = make('time');
  when.textContent = new Date().toTimeString().slice(0, 8);
  item.append(when, line);
  $('log').prepend(item);
  while ($('log').children.length > LOG_LONGEST) $('log').lastChild.remove();
}

// Who has come, gone, or is in another state than before.
function compare(event) {
  const now = new Map(event.members.map((member) => [member.member, member]));
  const before = new Map((known.members ? known.members.members : []).map((member) => [member.member, member]));
  const name = (member) => `process ${nameOf(member)} (${member.host})`;
  for (const [number, member] of now) {
    const was = before.get(number);
    if (!was) { if (known.members) log(`${name(member)} has joined`); continue; }
    if (was.state === member.state) continue;
    if (member.state === 'silent') log(`${name(member)} gives no answer`);
    else if (was.state === 'silent') log(`${name(member)} answers again`);
    else if (was.state === 'joined' && member.state === 'member') log(`${name(member)} is welcomed`);
    else log(`${name(member)}: ${member.state}`);
  }
  // Those that were seen to leave have left; of the others as many as were counted are lost.
  const gone = [...before.values()].filter((member) => !now.has(member.member));
  const leaves = (member) => /^(?:leaving|left)$/.test(member.state);
  if (!known.members) known.losses = event.losses;
  for (const member of gone.sort((a, b) => leaves(a) - leaves(b))) {
    if (event.losses > known.losses) { known.losses++; log(`${name(member)} is lost`); }
    else log(`${name(member)} has left`);
  }
}

function onMembers(event) {
  known.at = performance.now();
  known.interval = event.seconds;
  if (event.ended) {
    known.ended = true;
    source.close();
  }
  const trouble = event.ended || event.trouble;
  alarm('trouble', trouble ? [[trouble, '']] : [], event.good);
  if (!event.members) return draw(drawHead);
  rates(event);
  compare(event);
  for (const member of event.members) known.names.set(member.member, nameOf(member));
  known.members = event;
  draw(drawHead, drawMembers);
}

function onThreads(event) {
  alarm('deadlock', event.deadlocks.map(({ why, threads }) => [`Deadlock: ${why}`, threads.join('\n')]));
  if (event.deadlocks.length && !known.deadlocks) log('a deadlock: see above');
  known.deadlocks = event.deadlocks.length;
  remember(event);
  flows(event);
  known.threads = event;
  draw(drawThreads, drawMappings, drawHot, drawTraffic, drawTimeline);
}

// What is wrong, or (`good`) only to be known: pairs of head and body.
function alarm(id, all, good) {
  const node = $(id);
  kind(node, `alarm${all.length ? ' on' : ''}${good ? ' good' : ''}`);
  while (node.children.length > 2 * all.length) node.lastChild.remove();
  while (node.children.length < 2 * all.length) node.append(make('b'), make('span'));
  all.forEach(([head, body], at) => {
    text(node.children[2 * at], head);
    text(node.children[2 * at + 1], body);
  });
}

// ---- Drawing: one part of the page after the other, and a large one in pieces, so that no frame takes long

const parts = new Set();
const frames = []; // which part each drew, which step of it, and how long that took, in ms
const dmi = window.dmi = { frames, measure: false, known, history }; // for web_page.t

let drawing = null; // { name, steps }: a part that is not finished

function draw(...more) {
  if (!parts.size && !drawing && more.length) requestAnimationFrame(frame);
  for (const part of more) parts.add(part);
}

function frame() {
  const began = performance.now();
  if (!drawing) {
    const [part] = parts;
    parts.delete(part);
    drawing = { name: part.name, step: 0, steps: part() || [][Symbol.iterator]() };
  }
  const { name } = drawing, step = drawing.step++;
  if (drawing.steps.next().done) drawing = null;
  if (dmi.measure) document.body.getBoundingClientRect(); // what the layout takes, too
  frames.push([name, step, performance.now() - began]);
  if (frames.length > 1000) frames.shift();
  if (parts.size || drawing) requestAnimationFrame(frame);
}

// A table whose rows have keys: `fill` puts an item into the cells of its row.  In steps of so many rows,
// as the layout of changed rows takes longer than changing them.
const STEP = 24;
function* rows(table, items, keyOf, fresh, fill) {
  const body = table.tBodies[0];
  const old = table.known || new Map(), next = new Map();
  let at = body.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    const row = old.get(key) || titled(table, fresh(item));
    fill(row, item);
    next.set(key, row);
    old.delete(key);
    if (row === at) at = at.nextSibling;
    else body.insertBefore(row, at);
    if (next.size % STEP === 0) yield;
  }
  for (const row of old.values()) row.remove();
  table.known = next;
}

// In a narrow window the title of its column stands before each cell.
function titled(table, row) {
  for (const [at, cell] of row.cells_.entries()) cell.dataset.title = table.tHead.rows[0].cells[at].textContent;
  return row;
}

function newRow(classes) {
  const row = make('tr');
  row.cells_ = classes.map((name) => row.appendChild(make('td', name)));
  return row;
}

function bar(cell, parts_) {
  const label = cell.appendChild(make('span')), line = cell.appendChild(make('div', 'bar'));
  return { label, parts: Array.from({ length: parts_ }, () => line.appendChild(make('i'))) };
}

// ---- Parts

// Seconds for which nothing has come, if that is more than it should be.
function silence() {
  const seconds = (performance.now() - known.at) / 1000;
  return known.at && seconds > 3 + 2 * known.interval ? seconds : 0;
}

function drawHead() {
  const fresh = $('fresh'), event = known.members, silent = silence();
  kind(fresh, !known.ended && (known.lost || silent) ? 'stale' : ''); // how it has ended stands below
  text(fresh, known.ended ? 'ended' : known.lost ? 'connection lost; trying again' : silent ? `nothing new for ${duration(silent)}` : known.interval > 5 ? `live, every ${known.interval.toFixed(0)} s` : 'live');
  if (!event) return;
  const sum = (of) => event.members.reduce((all, member) => all + (of(member) || 0), 0);
  if (event.program) {
    text($('program'), event.program);
    const title = `${event.program.split(' ')[0].split('/').pop()} – DMI program`;
    if (document.title !== title) document.title = title;
  }
  $('asked').hidden = !event.asked_at;
  text($('asked'), event.asked_at ? `asked at ${event.asked_at}` : '');
  text($('count'), String(event.members.length));
  text($('cores'), String(event.cores));
  text($('running'), String(sum((member) => member.threads)));
  text($('memory'), bytes(sum((member) => member.pool && member.pool.used)) + ' of ' + bytes(sum((member) => member.pool && member.pool.limit)));
  text($('traffic'), perSecond(sum((member) => member.out), 'bytes'));
}

function freshMember(member) {
  const row = newRow(['', '', '', 'num', 'num', 'num', 'num', '', 'num', 'num', 'num', 'num']);
  row.colour = row.cells_[0].appendChild(make('i', 'colour'));
  row.label = row.cells_[0].appendChild(make('span'));
  row.badge = row.cells_[2].appendChild(make('span'));
  row.pool = bar(row.cells_[7], 1);
  row.rate = [9, 10, 11].map((at) => bar(row.cells_[at], 1));
  row.onclick = () => { known.chosen = known.chosen === member.member ? null : member.member; draw(drawMembers, drawThreads, drawTimeline); };
  return row;
}

function drawMembers() {
  const { members } = known.members;
  const most = (rate) => Math.max(1, ...members.map((member) => member[rate] || 0));
  const rate = [['in', 'bytes', most('in')], ['out', 'bytes', most('out')], ['fault', 'count', most('fault')]];
  return rows($('members'), members, (member) => member.member, freshMember, (row, member) => {
    const cells = row.cells_, { pool } = member;
    if (row.dataset.process !== String(member.process)) row.dataset.process = member.process;
    kind(row, known.chosen === member.member ? 'chosen' : '');
    style(row.colour, 'background', hue(member.member));
    text(row.label, nameOf(member) + (member.first ? ' · first' : ''));
    text(cells[1], member.host);
    kind(row.badge, 'badge s-' + member.state);
    text(row.badge, member.state);
    text(cells[3], member.pid ? String(member.pid) : '–');
    text(cells[4], member.now ? age(member.now - member.since) : '–');
    text(cells[5], String(member.cores));
    text(cells[6], member.threads === undefined ? '–' : String(member.threads));
    text(row.pool.label, pool ? `${bytes(pool.used)} of ${bytes(pool.limit)}` : '–');
    style(row.pool.parts[0], 'width', pool ? (100 * pool.used / Math.max(1, pool.limit)).toFixed(1) + '%' : '0%');
    text(cells[8], pool ? bytes(pool.spilled) : '–');
    rate.forEach(([name, unit, top], at) => {
      text(row.rate[at].label, perSecond(member[name], unit));
      style(row.rate[at].parts[0], 'width', (100 * (member[name] || 0) / top).toFixed(0) + '%');
    });
  });
}

const kinds = new Set(['computes', 'outside', 'page', 'lock', 'barrier', 'suspend']);
const kindOf = (state) => kinds.has(state) ? state : 'wait';
const memberOf = (number) => known.members && known.members.members.find((member) => member.member === number);
// Also of one that is gone: the timeline still has it.
const processOf = (number) => { const member = memberOf(number); return member ? nameOf(member) : known.names.get(number) ?? '?'; };
const chosen = (thread) => known.chosen === null || thread.member === known.chosen;

function freshThread() {
  const row = newRow(['', '', 'num', 'wrap mono', 'wrap']);
  row.badge = row.cells_[1].appendChild(make('span'));
  return row;
}

function drawThreads() {
  const shown = known.threads ? known.threads.threads.filter(chosen) : [];
  text($('which'), known.chosen === null ? '' : `of process ${processOf(known.chosen)}`);
  $('everyone').hidden = known.chosen === null;
  return rows($('threads'), shown, (thread) => thread.thread, freshThread, (row, thread) => {
    const cells = row.cells_;
    text(cells[0], `${thread.name} of process ${processOf(thread.member)}`);
    kind(row.badge, 'badge s-' + kindOf(thread.state));
    text(row.badge, thread.state === 'outside' ? 'outside of DMI' : thread.state);
    text(cells[2], thread.ns === undefined ? '' : duration(thread.ns / 1e9));
    text(cells[3], thread.call ? `${thread.waits ? '' : 'last: '}${thread.call} at ${thread.place}` : 'none of DMI yet');
    text(cells[4], thread.waits || '');
  });
}

const hue = (number) => `hsl(${(number * 137.5) % 360} 50% 55%)`;

// Which colour is which process, of those that own pages.
function drawOwners(mappings) {
  const owners = new Set();
  for (const mapping of mappings) for (const [number, has] of Object.entries(mapping.of)) if (has.owned) owners.add(Number(number));
  const legend = $('owners'), shown = owners.size > LEGEND_LONGEST ? [] : [...owners].sort((a, b) => a - b);
  while (legend.children.length > shown.length) legend.lastChild.remove();
  while (legend.children.length < shown.length) legend.append(make('span'));
  shown.forEach((number, at) => {
    const node = legend.children[at], colour = hue(number);
    if (node.colour !== colour) node.style.setProperty('--kind', node.colour = colour);
    text(node, `process ${processOf(number)}`);
  });
}

function drawMappings() {
  const shown = known.threads.mappings.filter((mapping) => !mapping.allocator || Object.values(mapping.of).some((of) => of.owned || of.copies));
  const fresh = () => {
    const row = newRow(['mono', 'num', 'num', '', 'num', 'num', 'wrap']);
    row.owners = row.cells_[3].appendChild(make('div', 'owners'));
    return row;
  };
  drawOwners(shown);
  return rows($('mappings'), shown, (mapping) => mapping.mapping, fresh, (row, mapping) => {
    const cells = row.cells_, of = Object.entries(mapping.of);
    const sum = (what) => of.reduce((all, [, has]) => all + (has[what] || 0), 0);
    const owned = of.filter(([, has]) => has.owned), all = sum('owned');
    text(cells[0], mapping.mapping);
    text(cells[1], bytes(mapping.page_size));
    text(cells[2], mapping.pages < UNLIMITED ? String(mapping.pages) : 'no limit');
    while (row.owners.children.length > owned.length) row.owners.lastChild.remove();
    while (row.owners.children.length < owned.length) row.owners.append(make('i'));
    owned.forEach(([number, has], at) => {
      const part = row.owners.children[at];
      style(part, 'width', (100 * has.owned / all).toFixed(2) + '%');
      style(part, 'background', hue(Number(number)));
      const title = `process ${processOf(Number(number))}: ${has.owned} pages`;
      if (part.title !== title) part.title = title;
    });
    text(cells[4], String(sum('copies')));
    text(cells[5], of.some(([, has]) => has.faults !== undefined) ? String(sum('faults')) : '–');
    text(cells[6], mapping.made);
  });
}

function drawHot() {
  const hot = known.threads.hot, made = new Map(known.threads.mappings.map((mapping) => [mapping.mapping, mapping.made]));
  $('often').hidden = !hot.length;
  const { sharing } = known.threads, list = $('sharing');
  while (list.children.length > sharing.length) list.lastChild.remove();
  while (list.children.length < sharing.length) list.append(make('li'));
  sharing.forEach((line, at) => text(list.children[at], line));
  return rows($('hot'), hot, (page) => `${page.mapping} ${page.page}`, () => newRow(['num', 'mono', 'num', 'wrap', '', 'wrap']), (row, page) => {
    const cells = row.cells_;
    text(cells[0], page.page);
    text(cells[1], page.mapping);
    text(cells[2], page.rate.toFixed(0));
    text(cells[3], page.by);
    text(cells[4], page.owner);
    text(cells[5], made.get(page.mapping) ?? 'not there any more');
  });
}

function drawTraffic() {
  const all = known.threads.traffic;
  $('between').hidden = all.length < 2;
  if (all.length < 2) return;
  const table = $('flows'), head = table.tHead.rows[0];
  const most = Math.max(1, ...all.flatMap((from) => Object.values(from.rate)));
  while (head.cells.length > all.length + 1) head.lastChild.remove();
  while (head.cells.length < all.length + 1) head.append(make('th', 'num'));
  all.forEach((to, at) => text(head.cells[at + 1], `to ${processOf(to.member)}`));
  const fresh = () => newRow(['', ...all.map(() => 'num')]);
  return rows(table, all, (from) => `${from.member} ${all.length}`, fresh, (row, from) => {
    text(row.cells_[0], `from ${processOf(from.member)}`);
    all.forEach((to, at) => {
      const cell = row.cells_[at + 1], rate = from.rate[to.member], title = head.cells[at + 1].textContent;
      if (cell.dataset.title !== title) cell.dataset.title = title;
      text(cell, to === from ? '' : perSecond(rate, 'bytes'));
      style(cell, 'background', `rgba(47, 111, 208, ${(to === from ? 0 : 0.4 * (rate || 0) / most).toFixed(2)})`);
    });
  });
}

// ---- The timeline

function remember(event) {
  const before = known.threads ? known.threads.at : event.at;
  for (const thread of event.threads) {
    const entry = history.get(thread.thread) || { runs: [] };
    const state = kindOf(thread.state), last = entry.runs[entry.runs.length - 1];
    Object.assign(entry, { thread: thread.thread, member: thread.member, label: thread.name === 'DMI_main' ? 'main' : thread.name.replace('thread ', '') });
    if (last && last.to >= before && last.state === state) last.to = event.at;
    else entry.runs.push({ from: last && last.to >= before ? last.to : before, to: event.at, state });
    history.set(thread.thread, entry);
  }
  for (const [key, entry] of history) {
    entry.runs = entry.runs.filter((run) => run.to > event.at - SPAN);
    if (!entry.runs.length) history.delete(key);
  }
}

const canvas = document.querySelector('#timeline canvas');
const GUTTER = 92, AXIS = 18;

function drawTimeline() {
  const event = known.threads;
  if (!event) return;
  const all = [...history.values()].filter(chosen).sort((a, b) => a.member - b.member);
  const high = Math.max(4, Math.min(16, Math.floor(520 / Math.max(1, all.length))));
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = all.length * high + AXIS;
  const css = getComputedStyle(document.documentElement);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = height + 'px';
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  // As wide as what is known is old.
  const age = event.at - Math.min(event.at, ...[...history.values()].map(({ runs }) => runs[0].from));
  const [span, mark] = SPANS.find(([seconds]) => age <= seconds) || SPANS[SPANS.length - 1];
  const x = (at) => GUTTER + (width - GUTTER) * (1 - (event.at - at) / span);
  dmi.drawn = { all, high, x, ratio, css, span };
  // All of one colour at once.
  const paths = new Map();
  all.forEach((entry, row) => {
    for (const run of entry.runs) {
      if (!paths.has(run.state)) paths.set(run.state, new Path2D());
      const from = Math.max(GUTTER, x(run.from));
      paths.get(run.state).rect(from, row * high + 0.5, Math.max(1, x(run.to) - from), high - (high > 6 ? 2 : 1));
    }
  });
  for (const [state, path] of paths) { pen.fillStyle = css.getPropertyValue('--' + state); pen.fill(path); }
  pen.font = '11px system-ui, sans-serif';
  pen.textBaseline = 'middle';
  pen.fillStyle = css.getPropertyValue('--dim');
  // A label for each row, or for each process where rows are low.
  let last = null;
  all.forEach((entry, row) => {
    const first = entry.member !== last;
    last = entry.member;
    const y = Math.max(6, row * high + high / 2);
    if (high >= 11 || (first && (row === 0 || y - drawTimeline.at >= 11))) {
      drawTimeline.at = y;
      pen.fillText(high >= 11 ? `${processOf(entry.member)} · ${entry.label}` : `process ${processOf(entry.member)}`, 0, y, GUTTER - 8);
    }
  });
  for (let seconds = 0; seconds <= span; seconds += mark) {
    const at = x(event.at - seconds), label = !seconds ? 'now' : seconds % 60 ? `−${seconds} s` : `−${seconds / 60} min`;
    pen.fillText(label, Math.min(width - pen.measureText(label).width, Math.max(GUTTER, at - pen.measureText(label).width / 2)), height - AXIS / 2);
  }
}

// ---- Begin

$('everyone').onclick = () => { known.chosen = null; draw(drawMembers, drawThreads, drawTimeline); };
window.addEventListener('resize', () => draw(drawTimeline));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => draw(drawTimeline));

const source = new EventSource('events' + location.search);
const listen = (name, then) => source.addEventListener(name, (message) => {
  known.lost = false;
  dmi[name] = (dmi[name] || 0) + 1;
  then(JSON.parse(message.data));
});
listen('members', onMembers);
listen('threads', onThreads);
setInterval(() => { if (!known.ended && silence()) draw(drawHead); }, 1000);
source.onerror = () => {
  if (known.ended) return;
  known.lost = true;
  draw(drawHead);
};
