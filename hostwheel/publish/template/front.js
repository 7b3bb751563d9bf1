
const page = document.documentElement, byId = id => document.getElementById(id);
page.classList.add("live");

// The bucket's address, with nothing in it that a shell would take for its own.
const escaped = character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`;

const {protocol, host, pathname} = new URL(page.dataset.root || ".", location.href);
const address = `${protocol}//${host}${pathname.replace(/[^\w/.%~-]/g, escaped)}`;

// `make("p", {className: "name"}, "text", element, …)`: text goes in as text.
function make(kind, properties, ...children) {
  const made = Object.assign(document.createElement(kind), properties);
  made.append(...children);
  return made;
}

const say = words => { byId("said").textContent = words; };

async function copy(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    say("Copied");
    return "Copied";
  } catch { // plain http, or not allowed
    getSelection().selectAllChildren(code);
    say("Selected: copy it with the keyboard");
    return "Selected";
  }
}

function withCopyButton(block) {
  const code = block.querySelector("code");
  const button = make("button", {type: "button", className: "copy"}, "Copy");
  button.setAttribute("aria-label", `Copy: ${code.textContent}`);
  button.addEventListener("click", async () => {
    button.textContent = await copy(code);
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.prepend(button);
}

const command = (name, line) => [
  make("p", {className: "name"}, name),
  make("pre", {className: "command"}, make("code", {}, line)),
];

for (const each of document.querySelectorAll("var")) each.replaceWith(address);
document.querySelectorAll("pre.command").forEach(withCopyButton);

function showResult(form, rules) {
  const result = byId("result"), host = readForm(form), wrong = notVersions();
  const told = wrong.map(words => make("p", {className: "bad"}, words));
  if (host === null) {
    result.replaceChildren(...told, make("p", {className: "faint"}, "Choose a CPU, or paste, and the best build is shown here."));
    say(wrong.join(" "));
    return;
  }
  const {best, others} = choose(rules, host);
  result.replaceChildren(...told, best ? chosen(best, host) : none(), why(others, !best));
  result.querySelectorAll("pre.command").forEach(withCopyButton);
  say([...wrong, best ? `The fastest that fits: ${best.recipe}, ${best.title}` : "No build here fits this machine."].join(" "));
}

function chosen(best, host) {
  const wanted = `${best.project}==${best.version}`;
  return make("div", {className: "best"},
    make("p", {}, make("b", {}, "✓ ", best.recipe), ` ${best.title}`),
    host.gpu && !best.architecture
      ? make("p", {}, "No build here uses this GPU: this one runs on the CPU.") : "",
    make("p", {className: "faint"}, facts(best, host).join(" · "), " · ",
      make("a", {href: best.page}, "more, and evidence")),
    ...command("pip", `pip install --extra-index-url ${address}simple/ ${wanted}`),
    ...command("uv", `uv pip install --index ${address}simple/ ${wanted}`),
    ...command("requirements.txt, by hash",
      `${best.project} @ ${address}${best.path}#sha256=${best.sha256}`));
}

// With what the form left open.
function facts(best, host) {
  const open = [];
  if (best.architecture && host.gpu.driver === null) open.push(`driver ${best.driver} or newer`);
  if (host.glibc === null) open.push(`glibc ${lowestGlibc(best)}`);
  if (host.glibcxx === null) open.push(`GLIBCXX_${best.glibcxx}`);
  if (best.python) open.push(`Python ${best.python}`);
  return [best.version, best.size, ...(open.length ? [`also needs ${open.join(", ")}`] : [])];
}

// pip and uv go by the tag, where that asks for more than the files do.
const lowestGlibc = ({tagged, glibc}) => tagged && isNewer(tagged, glibc) ? tagged : glibc;

const none = () => make("div", {className: "best bad"},
  make("p", {}, make("b", {}, "✗ No build here fits this machine.")));

function why(others, open) {
  const lines = others.sort((one, other) => compareBuilds(other.build, one.build)).map(({build, reason}) =>
    make("li", {}, make("b", {}, build.recipe), ` ${build.version}: ${reason}`));
  const title = open ? "Why" : `Why not the others (${others.length})`;
  return make("details", {open, className: "why"}, make("summary", {}, title), make("ul", {}, ...lines));
}

// What is wrong with the fields for versions, in words.
function notVersions() {
  return [...document.querySelectorAll("input[pattern]")].filter(field => !field.validity.valid)
    .map(field => `${field.labels[0].textContent}: “${field.value.trim()}” is no version such as ${field.placeholder}, and is not looked at.`);
}

// The host as the form has it; null while the CPU is not chosen.
function readForm({elements}) {
  const written = id => byId(id).validity.valid && byId(id).value.trim() || null;
  const {cpu, gpu} = elements;
  if (cpu.value === "?") return null;
  const card = gpu.selectedOptions[0];
  return {
    features: cpu.value.split(" "),
    gpu: gpu.value ? {name: card.dataset.pasted ?? "this GPU", compute: gpu.value, driver: written("driver")} : null,
    glibc: written("glibc"),
    glibcxx: written("glibcxx"),
  };
}

// What was pasted goes into the fields, where it can be seen and changed.
function fillForm({elements}, pasted) {
  if (pasted.features) pastedOption(elements.cpu, pasted.features.join(" "), `as pasted: ${pasted.features.length} flags`);
  if (pasted.features && !pasted.gpu) elements.gpu.value = "";
  if (pasted.gpu) pastedOption(elements.gpu, pasted.gpu.compute, pasted.gpu.name);
  elements.driver.value = pasted.gpu?.driver ?? "";
  elements.glibc.value = pasted.glibc ?? "";
  elements.glibcxx.value = pasted.glibcxx ?? "";
}

function pastedOption(select, value, words) {
  select.querySelector("[data-pasted]")?.remove();
  const option = make("option", {value}, words);
  option.dataset.pasted = words;
  select.append(option);
  option.selected = true;
}

const form = byId("form");
if (form) {
  const rules = JSON.parse(byId("rules").textContent);
  form.hidden = false;
  form.addEventListener("submit", event => event.preventDefault());
  byId("paste").addEventListener("input", event =>
    fillForm(form, readPasted(event.target.value, rules.kernelNames)));
  form.addEventListener("input", () => showResult(form, rules));
  showResult(form, rules);
}

// A link to what is folded unfolds it, where the browser does not.
function reveal() {
  for (let at = document.getElementById(decodeURIComponent(location.hash.slice(1))); at; at = at.parentElement) {
    if (at.localName === "details") at.open = true;
  }
}
addEventListener("hashchange", reveal);
reveal();
