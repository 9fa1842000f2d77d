//! The diagnostic codes of targets.

use ir_core::diagnostics::codes::Code;

/// Every code that targets report, in order.
pub const CODES: &[Code] = &[
    Code {
        code: "E0901",
        title: "unknown target",
        explanation: "A target is written `name{key=value,flag}`, and there is none of that name. The names \
                      nearest to the one written are suggested.",
    },
    Code {
        code: "E0902",
        title: "a kernel uses what the target does not have",
        explanation: "Barriers and threads of a block exist on graphics processors only; buffers have known \
                      extents and scalar elements. Schedule the kernel for this target, or choose another.",
    },
    Code {
        code: "E0903",
        title: "no compiler",
        explanation: "Running generated C needs a C compiler: `CC`, or `cc`, `gcc` or `clang` on the path. \
                      Without one, run the interpreter.",
    },
    Code {
        code: "E0904",
        title: "the compiler refused generated code",
        explanation: "The compiler's messages follow, and the source is kept in the file that is named. This \
                      is an error of the code generator, or options that the compiler does not know.",
    },
    Code {
        code: "E0905",
        title: "the cache cannot be written",
        explanation: "Compiled kernels are kept in `RELAY_CACHE_DIR`, else in the user's cache folder. The \
                      disk may be full, or the folder not writable; nothing that was there is lost. \
                      What lies there runs as you, so a folder that other users may write to, or \
                      that is theirs, is refused.",
    },
    Code {
        code: "E0906",
        title: "a compiled kernel cannot be loaded",
        explanation: "The shared object was built but the system does not load it. It may be built for \
                      another machine: see the option `isa`.",
    },
    Code {
        code: "E0907",
        title: "a buffer does not fit its kernel",
        explanation: "A kernel is called with one buffer for each of its parameters, each of the parameter's \
                      size and aligned to 64 bytes.",
    },
    Code {
        code: "E0910",
        title: "a program cannot be laid out for a target",
        explanation: "Programs run as kernels that a main kernel calls. One of its functions has no \
                      schedule, its buffers are larger than any memory, or there is no main kernel: \
                      see the pass `lower-te`. Or it has a check, and is provided by others \
                      (`extern`), who cannot say that the check failed.",
    },
    Code {
        code: "E0911",
        title: "not a name in the language of the target",
        explanation: "What a compiled program is called begins the names of its functions and files. For C \
                      it is made of letters, digits and `_`, and is no word of C.",
    },
    Code {
        code: "E0912",
        title: "no measured costs",
        explanation: "A target that is asked for measured costs, such as `c{costs=measured}`, \
                      takes those that `relay-opt calibrate --target c` kept on this machine. \
                      There are none for these options and this machine, or what was kept is \
                      broken, or of another compiler or version, and ignored. Measure again, or \
                      leave the option out.",
    },
    Code {
        code: "E0913",
        title: "the compiler translates C wrongly",
        explanation: "Before a C compiler is used for the first time with some flags, it compiles a few \
                      kernels of kinds that compilers got wrong, whose results are compared with those \
                      of an interpreter. As a warning, it names the flag with which this compiler gets \
                      them right, and which it is given. As an error, no flag helps: take another \
                      compiler, or the interpreter.",
    },
    Code {
        code: "E0914",
        title: "no device",
        explanation: "Shaders run on a device with Vulkan 1.1. There is no loader, no driver, or no device of \
                      the name that was asked for. Any machine has one with Mesa's `lavapipe`, which runs \
                      on its processor.",
    },
    Code {
        code: "E0915",
        title: "a device cannot run a program",
        explanation: "A kernel asks for what the device does not have, such as numbers of 64 bits, or is larger \
                      than its limits: buffers, memory, threads of a block. The message names the limit. \
                      Choose another device, or the target `c`.",
    },
    Code {
        code: "E0916",
        title: "a device failed",
        explanation: "The driver of the device reported an error, or the device was lost, while a program ran. \
                      What it computed is lost. Try again; where that does not help, the driver or this \
                      compiler has an error.",
    },
    Code {
        code: "E0921",
        title: "no assembler of PTX",
        explanation: "Whether PTX is well formed is asked of `ptxas`, which is in NVIDIA's toolkit, and in the \
                      Python package `nvidia-cuda-nvcc-cu12`. It is looked for where the option `ptxas` says, \
                      then the variable `PTXAS`, and then on the path. Code is written and run without it.",
    },
    Code {
        code: "E0922",
        title: "the assembler refused generated code",
        explanation: "What `ptxas` says follows. This is an error of the code generator, or the assembler does \
                      not know the architecture: version 12.9 knows `sm_70` to `sm_120`.",
    },
    Code {
        code: "E0923",
        title: "no NVIDIA driver",
        explanation: "Running PTX on a device needs NVIDIA's driver, `libcuda.so.1`, and a device of the \
                      architecture of the code or a later one. Without one, `ptx{run=interpreter}` runs the \
                      same code on the processor.",
    },
    Code {
        code: "E0925",
        title: "PTX does what it must not",
        explanation: "The interpreter of PTX ended a run, or could not read the text. It names the line, the \
                      block and the thread: an access outside of a buffer or at no multiple of its size, a \
                      read of what nothing was written to, a barrier at which not all threads arrive, or a \
                      race. Generated code does none of these: this is an error of a schedule or of the \
                      code generator.",
    },
];
