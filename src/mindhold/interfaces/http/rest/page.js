"use strict";
// The key stays in this page's memory: it is never stored, and sent to this server alone.
const here = location.origin;
const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

for (const sample of all("code.sample-text")) sample.textContent = sample.textContent.replaceAll("http://127.0.0.1:3333", here);

const filter = one("#filter"), nothing = one("#nothing");
function narrow() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (node) => words.every((word) => node.dataset.words.includes(word));
  for (const node of all("[data-words]")) node.hidden = !fits(node);
  for (const group of all("[data-group]")) group.hidden = words.length > 0 && !one("[data-words]:not([hidden])", group);
  for (const other of all("[data-beside]")) other.hidden = words.length > 0;
  nothing.hidden = all("main [data-words]:not([hidden])").length > 0;
}
filter.addEventListener("input", narrow);
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) { event.preventDefault(); filter.focus(); }
  if (event.key === "Escape" && document.activeElement === filter) { filter.value = ""; narrow(); }
});

const wide = matchMedia("(min-width: 56rem)"), index = one(".index details");
const settle = () => { index.open = wide.matches; };
wide.addEventListener("change", settle);
settle();
index.addEventListener("click", (event) => { if (event.target.closest("a") && !wide.matches) index.open = false; });

for (const button of all("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(one("code", button.parentNode).textContent); button.textContent = "Copied"; }
    catch { button.textContent = "Can't copy"; }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

function request(form) {
  const headers = {}, query = new URLSearchParams(), key = one("#key").value.trim();
  let path = form.dataset.path, body;
  for (const field of all("[data-in]", form)) {
    const value = field.value;
    if (field.dataset.in === "path") path = path.replace(`{${field.name}}`, encodeURIComponent(value));
    else if (value === "") continue;
    else if (field.dataset.in === "body") { body = value; headers["Content-Type"] = field.dataset.media; }
    else if (field.dataset.in === "header") headers[field.name] = value;
    else if (field.dataset.list !== undefined) value.split(",").forEach((part) => query.append(field.name, part.trim()));
    else query.append(field.name, value);
  }
  if (key) headers.Authorization = `Bearer ${key}`;
  const asked = query.toString();
  return [path + (asked ? `?${asked}` : ""), { method: form.dataset.method, headers, body, credentials: "omit", cache: "no-store" }];
}

function shown(text, media) {
  if (!media.includes("json") || media.includes("ndjson")) return text;
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

const MOST = 200_000;
async function send(form, stop) {
  const [status, headers, text] = ["p", "pre", "pre"].map((tag) => document.createElement(tag));
  one("output", form).replaceChildren(status);
  const [path, asked] = request(form);
  status.textContent = `${asked.method} ${path} …`;
  const began = performance.now();
  try {
    const answer = await fetch(path, { ...asked, signal: stop.signal });
    status.textContent = `${answer.status} ${answer.statusText} · ${Math.round(performance.now() - began)} ms`;
    status.className = answer.ok ? "good" : "bad";
    const told = ["content-type", "etag", "location", "idempotent-replayed", "ratelimit-remaining", "retry-after"];
    headers.textContent = told.filter((name) => answer.headers.has(name)).map((name) => `${name}: ${answer.headers.get(name)}`).join("\n");
    one("output", form).append(headers, text);
    const media = answer.headers.get("content-type") ?? "", reader = answer.body.getReader(), decoder = new TextDecoder();
    for (let whole = ""; ;) {
      const { done, value } = await reader.read();
      whole += decoder.decode(value, { stream: !done });
      text.textContent = done ? shown(whole, media) : whole;
      if (done) return;
      if (whole.length > MOST) { text.textContent = `${whole.slice(0, MOST)}\n… and more`; stop.abort(); return; }
    }
  } catch (error) {
    if (error.name !== "AbortError") { status.textContent = `The server did not answer: ${error.message}`; status.className = "bad"; }
  }
}

for (const form of all("form.request")) {
  one(".does", form).hidden = false;
  const halt = one("button.halt", form);
  let stop;
  halt.addEventListener("click", () => stop?.abort());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (form.dataset.destroys !== undefined && !confirm("This deletes or replaces what is remembered. Go on?")) return;
    stop?.abort();
    stop = new AbortController();
    halt.hidden = false;
    await send(form, stop);
    halt.hidden = true;
  });
}
