// Refuses a CPU that lacks what was compiled in, with a sentence instead of an illegal
// instruction. It sits in .preinit_array, which the loader runs before any library's constructor.
// Plain x86-64 code that calls nothing of llama.cpp.

#include <cpuid.h>
#include <string.h>
#include <unistd.h>

#include "guard_features.h" // written from the plan: HOSTWHEEL_BUILD, HOSTWHEEL_FEATURES(X)

enum { EXIT_WRONG_MACHINE = 3 };

struct feature {
    const char * name;
    unsigned     leaf, subleaf, reg, bit, state;
};

#define ROW(name, leaf, subleaf, reg, bit, state) { name, leaf, subleaf, reg, bit, state },
static const struct feature needed[] = { HOSTWHEEL_FEATURES(ROW) };
#undef ROW

static unsigned saved_state(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) {
        return 0;
    }
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int has(const struct feature * f, unsigned state) {
    unsigned out[4] = { 0 };
    if ((state & f->state) != f->state) {
        return 0;
    }
    if (f->leaf == 7 && f->subleaf > 0) { // only leaf 7 counts its subleaves
        if (!__get_cpuid_count(7, 0, &out[0], &out[1], &out[2], &out[3]) || out[0] < f->subleaf) {
            return 0;
        }
    }
    return __get_cpuid_count(f->leaf, f->subleaf, &out[0], &out[1], &out[2], &out[3]) &&
           (out[f->reg] >> f->bit & 1);
}

static void say(const char * text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0) {
        _exit(EXIT_WRONG_MACHINE);
    }
}

static void say_brand(void) {
    union {
        unsigned words[12];
        char     text[49];
    } brand = { { 0 } };
    unsigned * w = brand.words;
    for (unsigned leaf = 0x80000002; leaf <= 0x80000004; leaf++, w += 4) {
        __get_cpuid(leaf, &w[0], &w[1], &w[2], &w[3]);
    }
    brand.text[48] = 0;
    say(brand.text[0] ? brand.text : "unknown CPU");
}

static void guard(int argc, char ** argv, char ** envp) {
    (void) argc, (void) argv, (void) envp;
    const unsigned state   = saved_state();
    const unsigned count   = sizeof(needed) / sizeof(needed[0]);
    unsigned       lacking = 0;
    for (unsigned i = 0; i < count; i++) {
        lacking += !has(&needed[i], state);
    }
    if (lacking == 0) {
        return;
    }
    say("llama.cpp " HOSTWHEEL_BUILD " cannot run on this CPU (");
    say_brand();
    say(").\nIt was compiled for CPUs with:");
    for (unsigned i = 0; i < count; i++) {
        say(" "), say(needed[i].name);
    }
    say(".\nThis CPU, or the virtual machine around it, lacks:");
    for (unsigned i = 0; i < count; i++) {
        if (!has(&needed[i], state)) {
            say(" "), say(needed[i].name);
        }
    }
    say(".\nInstall a build for this machine, for example one labelled cpu.any.\n");
    _exit(EXIT_WRONG_MACHINE);
}

__attribute__((section(".preinit_array"), used)) static void (*const run_guard)(int, char **, char **) = guard;
