"use strict";
// The key stays in this page's memory: it is never stored, and sent to this server alone.
// What was remembered is put in as text and as values, never as markup.
const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const key = one("#key"), told = one("#told");

function tell(text, good) { told.textContent = text; told.className = good ? "good" : "bad"; }

async function ask(path, body) {
  const headers = {}, given = key.value.trim();
  if (given) headers.Authorization = `Bearer ${given}`;
  if (body) headers["Content-Type"] = "application/json";
  const asked = { method: body ? "PATCH" : "GET", headers, body: body && JSON.stringify(body), credentials: "omit", cache: "no-store" };
  const answer = await fetch(path, asked);
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  if (answer.status === 401) key.focus();
  throw new Error(answer.status === 401 ? "A key is needed: type it above." : [said.error, said.advice].filter(Boolean).join(" ") || `The server answered ${answer.status}.`);
}

function wish(section, label, value) {
  if (section === "statement") return { statement: value };
  if (section === "name") return { name: value };
  if (section === "notes") return { notes: [value] };
  if (section === "contacts") return { contacts: [{ name: label, relation: value }] };
  return { [section]: { [label]: value } };
}

function row(entry) {
  const made = one("#row").content.cloneNode(true), form = one("form", made), value = one("input", made);
  const name = entry.section === "contacts" ? entry.label : entry.section === "notes" || entry.section === "name" ? "" : entry.key;
  const head = one("th", made);
  head.textContent = [name, entry.shared ? "(everybody's)" : ""].filter(Boolean).join(" ");
  head.hidden = !head.textContent;
  one("td", made).colSpan = head.hidden ? 2 : 1;
  value.value = entry.value;
  value.setAttribute("aria-label", name || entry.section);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const changed = wish(entry.section, entry.section === "contacts" ? entry.label : entry.key, value.value);
    if (entry.section === "notes") changed.remove = [`notes.${entry.key}`];
    if (value.value.trim() !== entry.value) change(changed);
  });
  const editions = one(".editions", made), past = one(".past", made), gone = one(".gone", made);
  past.addEventListener("click", () => recount(entry, editions));
  gone.hidden = entry.shared;
  gone.addEventListener("click", () => { if (confirm(`Remove ${name || entry.value}?`)) change({ remove: [`${entry.section}.${entry.key}`] }); });
  return made;
}

async function recount(entry, list) {
  if (!list.hidden) { list.hidden = true; return; }
  try {
    const found = await ask(`/api/profile/history?entry=${encodeURIComponent(`${entry.section}.${entry.key}`)}`);
    list.replaceChildren(...found.editions.map((edition) => {
      const line = document.createElement("li"), until = edition.until ? new Date(edition.until).toLocaleString() : "now";
      line.textContent = `${edition.value} (${new Date(edition.since).toLocaleString()} to ${until}, by ${edition.by})`;
      return line;
    }));
    list.hidden = false;
  } catch (error) { tell(error.message, false); }
}

function show(profile) {
  for (const section of all("main > section[id]")) {
    const entries = profile.entries.filter((entry) => entry.section === section.id);
    one("tbody", section).replaceChildren(...entries.map(row));
    one(".none", section).hidden = entries.length > 0;
    one("form.new", section).hidden = section.id === "name" && entries.length > 0;
  }
}

async function load() {
  try { show(await ask("/api/profile")); tell("", true); } catch (error) { tell(error.message, false); }
}

async function change(body) {
  try {
    const done = await ask("/api/profile", body);
    show(done.profile);
    tell(done.changes.map((each) => `${each.change}: ${each.section === "contacts" ? each.label : each.key}`).join(", "), true);
    return true;
  } catch (error) { tell(error.message, false); return false; }
}

for (const form of all("form.new, form.said")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const label = form.elements.label?.value.trim() ?? "";
    if (await change(wish(form.dataset.section, label, form.elements.value.value))) form.reset();
  });
}
key.addEventListener("change", load);
load();
