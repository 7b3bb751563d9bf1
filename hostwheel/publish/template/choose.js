"use strict";
// The rules of `hostwheel pick` (hostwheel/user/pick.py and findings.py), in the same words.
// tests/test_front_pick.py holds both against each other. A host's facts may be null: not known.

const numbers = version => version.split(".").map(Number);

// As Python compares tuples: below zero where `one` comes first.
function compare(one, other) {
  for (let at = 0; at < Math.min(one.length, other.length); at++) {
    if (one[at] !== other[at]) return one[at] < other[at] ? -1 : 1;
  }
  return one.length - other.length;
}

const isNewer = (one, other) => compare(numbers(one), numbers(other)) > 0;

// 120a → [12, 0]
function split(sm) {
  const number = parseInt(sm, 10);
  return [Math.floor(number / 10), number % 10];
}

// NVIDIA's rule of binary compatibility, for machine code.
function runsOn(architecture, compute) {
  const [own, card] = [split(architecture), split(compute)];
  if (architecture.endsWith("a")) return compare(own, card) === 0;
  return own[0] === card[0] && own[1] <= card[1];
}

function lacking(build, features, impliedBy) {
  const has = name => features.includes(name);
  return build.features.filter(name => !has(name) && !has(impliedBy[name] ?? name)).sort();
}

// Everything that keeps this build from this host.
function* against(build, host, impliedBy) {
  yield* build.never;
  const low = host.glibc !== null && host.glibc !== "2.0" && !isNewer(build.glibc, host.glibc);
  if (low && build.tagged && isNewer(build.tagged, host.glibc))
    yield `its tag asks for glibc ${build.tagged}, here is ${host.glibc}`;
  if (host.features !== null) {
    const missing = lacking(build, host.features, impliedBy);
    if (missing.length) yield `the CPU here lacks ${missing.join(" ")}`;
  }
  yield* againstLibraries(build, host);
  if (build.architecture) yield* againstGpu(build, host.gpu);
}

function* againstLibraries(build, host) {
  if (host.glibc === "2.0")
    yield `needs glibc ${build.glibc}; the C library here is another (musl, as in Alpine)`;
  else if (host.glibc !== null && isNewer(build.glibc, host.glibc))
    yield `needs glibc ${build.glibc}, here is ${host.glibc}`;
  if (host.glibcxx !== null && isNewer(build.glibcxx, host.glibcxx))
    yield `needs GLIBCXX_${build.glibcxx}, here is GLIBCXX_${host.glibcxx}`;
}

function* againstGpu(build, gpu) {
  const code = `sm_${build.architecture}`;
  if (gpu === null) {
    yield `has GPU code (${code}), and there is no NVIDIA GPU here: it runs on the CPU`;
    return;
  }
  if (build.driver !== null && gpu.driver !== null && isNewer(build.driver, gpu.driver))
    yield `needs NVIDIA driver ${build.driver} or newer, here is ${gpu.driver}`;
  if (!runsOn(build.architecture, gpu.compute))
    yield `has code for ${code}, which ${gpu.name} (sm_${gpu.compute}) cannot run`;
}

// Larger is faster, then newer.
function rank(build) {
  return [
    [build.architecture ? 1 : 0],
    build.architecture ? split(build.architecture) : [0, 0],
    build.cuda ? numbers(build.cuda) : [],
    [build.features.length],
    [build.order],
  ];
}

function firstDifference(one, other) {
  const [mine, its] = [rank(one), rank(other)];
  return mine.findIndex((part, at) => compare(part, its[at]) !== 0);
}

function compareBuilds(one, other) {
  const at = firstDifference(one, other);
  return at < 0 ? 0 : compare(rank(one)[at], rank(other)[at]);
}

// Why a build that fits is not the one.
function behind(build, best) {
  const at = firstDifference(build, best);
  if (at === 0) return "fits, but does not use the GPU";
  if (at === 1) return `fits, but sm_${best.architecture} is nearer to the GPU`;
  if (at === 2) return `fits, but is for CUDA ${build.cuda}, and ${best.cuda} runs here`;
  if (build.any) return "fits, but is for any CPU";
  if (at === 3) {
    const unused = best.features.filter(name => !build.features.includes(name));
    return `fits, but makes no use of ${unused.join(" ")}`;
  }
  const [mine, its] = [build, best].map(each => each.version.split("+")[0]);
  if (mine !== its) return `fits, but is older than ${its}`;
  return `fits, as ${best.recipe} does, which was published later`;
}

// The best build, null where none fits, and the others with their reasons.
function choose(rules, host) {
  const told = new Map(rules.builds.map(
    build => [build, [...against(build, host, rules.impliedBy)].join("; ")]));
  const fitting = rules.builds.filter(build => !told.get(build)).sort(compareBuilds);
  const best = fitting.at(-1) ?? null;
  const others = rules.builds.filter(build => build !== best)
    .map(build => ({build, reason: told.get(build) || behind(build, best)}));
  return {best, others};
}

// What the commands on the page printed: null for what is not in it.
function readPasted(text, kernelNames) {
  const flags = text.match(/^flags\s*:(.*)$/m);
  const gpu = text.match(/^(.+), (\d+)\.(\d), ([\d.]+)\s*$/m);
  const glibcxx = text.match(/GLIBCXX_(\d+(?:\.\d+)*)/);
  return {
    features: flags && flags[1].trim().split(/\s+/).map(name => kernelNames[name] ?? name),
    gpu: gpu && {name: gpu[1].trim(), compute: gpu[2] + gpu[3], driver: gpu[4]},
    glibc: /^glibc none/m.test(text) ? "2.0" : text.match(/^glibc (\d+(?:\.\d+)+)/m)?.[1] ?? null,
    glibcxx: glibcxx && glibcxx[1],
  };
}
