import type { FFIFunction, Library, ptr } from "bun:ffi";

/** The C library of glibc, and of musl by its architecture. */
const LIBRARIES = ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"] as const;

const calls = {
  ioctl: { args: ["i32", "u64", "ptr"], returns: "i32" },
  fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
  poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
  getsockname: { args: ["i32", "ptr", "ptr"], returns: "i32" },
  getpeername: { args: ["i32", "ptr", "ptr"], returns: "i32" },
  getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
  setsockopt: { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" },
  listen: { args: ["i32", "i32"], returns: "i32" },
  shutdown: { args: ["i32", "i32"], returns: "i32" },
  clock_gettime: { args: ["i32", "ptr"], returns: "i32" },
} as const satisfies Record<string, FFIFunction>;

/** Calls of the C library. */
export type Libc = Library<typeof calls>["symbols"] & { readonly ptr: typeof ptr };

let opening: Promise<Libc | undefined> | undefined;
let opened: Libc | undefined;

/** Opens the C library on Linux, once. Undefined on other systems, and where it has none of the known names. */
export function openLibc(): Promise<Libc | undefined> {
  return (opening ??= open());
}

async function open(): Promise<Libc | undefined> {
  if (process.platform !== "linux") return undefined;
  const { dlopen, ptr } = await import("bun:ffi");
  for (const name of LIBRARIES) {
    try {
      return (opened = { ...dlopen(name, calls).symbols, ptr });
    } catch {
      // The next one may exist.
    }
  }
  return undefined;
}

const POLLIN = 0x1;
const POLLRDHUP = 0x2000;
/** A `pollfd`: the descriptor, the events that are asked for, and those that were found. */
const pollfd = new DataView(new ArrayBuffer(8));
let pollfdAt: ReturnType<Libc["ptr"]> | undefined;

/**
 * Whether the other side of a socket has sent nothing that this process has not read, and has not closed it. False where the
 * system was not asked: before `openLibc`, and on other systems.
 */
export function isQuiet(descriptor: number): boolean {
  if (opened === undefined) return false;
  pollfdAt ??= opened.ptr(pollfd.buffer);
  pollfd.setInt32(0, descriptor, true);
  pollfd.setInt16(4, POLLIN | POLLRDHUP, true);
  return opened.poll(pollfdAt, 1n, 0) === 0;
}

const CLOCK_MONOTONIC = 1;
/** A `timespec`: the low halves of its seconds are at 0, those of its nanoseconds at 2. */
const timespec = new Uint32Array(4);

/**
 * Opens a monotonic clock that all processes of the machine have in common, in milliseconds. `performance.now()` and
 * `process.hrtime` begin with each process in Bun 1.4.5. Undefined where `openLibc` is.
 */
export async function openMachineClock(): Promise<(() => number) | undefined> {
  const libc = await openLibc();
  if (libc === undefined) return undefined;
  const at = libc.ptr(timespec);
  return () => {
    libc.clock_gettime(CLOCK_MONOTONIC, at);
    return (timespec[0] ?? 0) * 1000 + (timespec[2] ?? 0) / 1e6;
  };
}
