/*
 * A disk that fails on command: preloaded into a gateway, between SQLite and the C library.
 *
 * It remembers what every write to the database has overwritten until the file is synced. A power cut puts
 * back what was there, lets a chance part of the unsynced writes survive, sector by sector, and kills the
 * process: what the next start finds is what a machine without power may leave behind.
 *
 * TOLLGATE_DISK_FILE is the database's path. TOLLGATE_DISK_CONTROL is a unix socket to which it connects
 * before the program begins; each command is a line and is answered with a line. The processes that the program starts
 * have an ordinary disk: the main process of a gateway is the one that writes.
 *
 *   go                       nothing fails
 *   cut SEED                 the power fails now
 *   cut-at N SEED            the power fails at the Nth call from now
 *   fail KIND N ERROR COUNT  from the Nth call of KIND (write, sync) COUNT calls fail with ERROR (EIO, ENOSPC,
 *                            or SHORT: half of the first is written, then ENOSPC); COUNT 0: for ever
 *   slow MS                  each sync takes so much longer
 *   count                    answered with the number of calls so far
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECTOR 512
#define FILES_MAX 3
#define LINE_MAX_BYTES 256

/* One change of a file that is not synced: `old` is what it hid, `fresh` what it put there. */
struct change {
  struct change *before;
  off64_t offset;
  size_t length;
  char *fresh;
  off64_t old_offset;
  size_t old_length;
  char *old;
  off64_t old_size;
  off64_t new_size;
};

/* The database and what SQLite lays beside it. The memory map of the write-ahead log is no file to it: a start makes it anew. */
struct file {
  char path[4096];
  struct change *last;
};

enum kind { WRITE, SYNC, TRUNCATE };

static struct file files[FILES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int control = -1;
static long calls;

static long cut_at; /* Calls until the power fails; 0: it does not. */
static unsigned long cut_seed;
static enum kind fail_kind;
static long fail_at; /* Calls of that kind until one fails; 0: none does. */
static long fail_count; /* How many fail then; 0: all. */
static int fail_errno;
static int fail_short;
static long slow_ms;

static ssize_t (*real_pwrite)(int, const void *, size_t, off64_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off64_t);

static void find_real_calls(void) {
  if (real_ftruncate) return;
  real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
  real_fsync = dlsym(RTLD_NEXT, "fsync");
  real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
  real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
}

static struct file *tracked(int fd) {
  char link[64], path[4096];
  if (files[0].path[0] == 0) return NULL;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return NULL;
  path[length] = 0;
  for (int at = 0; at < FILES_MAX; at += 1)
    if (strcmp(files[at].path, path) == 0) return &files[at];
  return NULL;
}

/* Only a machine without memory fails here, and then no test means anything. */
static void *need(void *memory) {
  if (!memory) abort();
  return memory;
}

static off64_t size_of(int fd) {
  struct stat64 status;
  return fstat64(fd, &status) == 0 ? status.st_size : 0;
}

static char *bytes_at(int fd, off64_t offset, size_t length) {
  char *bytes = need(calloc(1, length + 1));
  size_t got = 0;
  while (got < length) {
    ssize_t more = pread64(fd, bytes + got, length - got, offset + (off64_t)got);
    if (more <= 0) break;
    got += (size_t)more;
  }
  return bytes;
}

static void remember_write(struct file *file, int fd, const void *bytes, size_t length, off64_t offset) {
  struct change *change = need(calloc(1, sizeof *change));
  off64_t end = offset + (off64_t)length;
  change->old_size = size_of(fd);
  change->new_size = end > change->old_size ? end : change->old_size;
  change->offset = change->old_offset = offset;
  change->length = length;
  change->fresh = memcpy(need(malloc(length + 1)), bytes, length);
  if (offset < change->old_size)
    change->old_length = end < change->old_size ? length : (size_t)(change->old_size - offset);
  change->old = bytes_at(fd, offset, change->old_length);
  change->before = file->last;
  file->last = change;
}

static void remember_truncation(struct file *file, int fd, off64_t size) {
  struct change *change = need(calloc(1, sizeof *change));
  change->old_size = size_of(fd);
  change->new_size = size;
  if (size < change->old_size) {
    change->old_offset = size;
    change->old_length = (size_t)(change->old_size - size);
    change->old = bytes_at(fd, size, change->old_length);
  }
  change->before = file->last;
  file->last = change;
}

static void forget_changes(struct file *file) {
  while (file->last) {
    struct change *change = file->last;
    file->last = change->before;
    free(change->fresh);
    free(change->old);
    free(change);
  }
}

static uint64_t chance_state;
static uint64_t chance(void) {
  chance_state += 0x9e3779b97f4a7c15u;
  uint64_t mixed = chance_state;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

/* Oldest first, so that what survives is laid over each other as it was written. */
static void let_survive(int fd, struct change *change, unsigned percent) {
  if (!change) return;
  let_survive(fd, change->before, percent);
  if (!change->fresh) {
    if (chance() % 100 < percent) real_ftruncate(fd, change->new_size);
    return;
  }
  for (size_t at = 0; at < change->length; at += SECTOR) {
    size_t length = change->length - at < SECTOR ? change->length - at : SECTOR;
    if (chance() % 100 < percent) real_pwrite(fd, change->fresh + at, length, change->offset + (off64_t)at);
  }
}

/* Ends the processes that this one has started. One that lives on would know what the database was before the cut. */
static void end_children(void) {
  char path[64];
  int child;
  snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
  FILE *children = fopen(path, "re");
  if (!children) return;
  while (fscanf(children, "%d", &child) == 1)
    if (kill(child, SIGKILL) == 0) waitpid(child, NULL, 0);
  fclose(children);
}

/* The caller holds the lock, and never gives it back. */
static void cut_power(unsigned long seed) {
  static const unsigned percents[] = {0, 0, 20, 50, 80, 100};
  end_children();
  chance_state = seed;
  unsigned percent = percents[chance() % (sizeof percents / sizeof *percents)];
  for (int at = 0; at < FILES_MAX; at += 1) {
    if (!files[at].last) continue;
    int fd = open64(files[at].path, O_RDWR);
    if (fd < 0) continue;
    for (struct change *change = files[at].last; change; change = change->before) {
      real_ftruncate(fd, change->old_size);
      if (change->old_length > 0) real_pwrite(fd, change->old, change->old_length, change->old_offset);
    }
    let_survive(fd, files[at].last, percent);
    close(fd);
  }
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

/* Counts a call; returns whether it fails, and with `is_half` whether half of it is done before. */
static int fails(enum kind kind, int *is_half) {
  calls += 1;
  if (cut_at > 0 && --cut_at == 0) cut_power(cut_seed);
  *is_half = 0;
  if (fail_at == 0 || kind != fail_kind) return 0;
  if (fail_at > 1) {
    fail_at -= 1;
    return 0;
  }
  if (fail_short) {
    fail_short = 0;
    *is_half = 1;
    return 1;
  }
  if (fail_count > 0 && --fail_count == 0) fail_at = 0;
  errno = fail_errno;
  return 1;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
  find_real_calls();
  struct file *file = tracked(fd);
  if (!file) return real_pwrite(fd, bytes, length, offset);
  pthread_mutex_lock(&lock);
  int is_half;
  ssize_t written = -1;
  if (!fails(WRITE, &is_half) || is_half) {
    size_t done = is_half ? length / 2 : length;
    remember_write(file, fd, bytes, done, offset);
    written = real_pwrite(fd, bytes, done, offset);
  }
  int error = errno;
  pthread_mutex_unlock(&lock);
  errno = error;
  return written;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
  return pwrite64(fd, bytes, length, offset);
}

static int sync_file(int fd, int (*real)(int)) {
  struct file *file = tracked(fd);
  if (!file) return real(fd);
  pthread_mutex_lock(&lock);
  long wait_ms = slow_ms;
  pthread_mutex_unlock(&lock);
  struct timespec wait = {wait_ms / 1000, wait_ms % 1000 * 1000000};
  if (wait_ms > 0) nanosleep(&wait, NULL);
  pthread_mutex_lock(&lock);
  int is_half;
  int result = fails(SYNC, &is_half) ? -1 : real(fd);
  int error = errno;
  if (result == 0) forget_changes(file);
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

int fsync(int fd) {
  find_real_calls();
  return sync_file(fd, real_fsync);
}

int fdatasync(int fd) {
  find_real_calls();
  return sync_file(fd, real_fdatasync);
}

int ftruncate64(int fd, off64_t size) {
  find_real_calls();
  struct file *file = tracked(fd);
  if (!file) return real_ftruncate(fd, size);
  pthread_mutex_lock(&lock);
  int is_half;
  int result = -1;
  if (!fails(TRUNCATE, &is_half)) {
    remember_truncation(file, fd, size);
    result = real_ftruncate(fd, size);
  }
  int error = errno;
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static void obey(const char *line, char *answer, size_t answer_size) {
  char kind[16], error[16];
  pthread_mutex_lock(&lock);
  snprintf(answer, answer_size, "ok\n");
  if (strcmp(line, "go") == 0) cut_at = fail_at = slow_ms = 0;
  else if (sscanf(line, "cut %lu", &cut_seed) == 1) cut_power(cut_seed);
  else if (sscanf(line, "cut-at %ld %lu", &cut_at, &cut_seed) == 2) {}
  else if (sscanf(line, "slow %ld", &slow_ms) == 1) {}
  else if (sscanf(line, "fail %15s %ld %15s %ld", kind, &fail_at, error, &fail_count) == 4) {
    fail_kind = strcmp(kind, "sync") == 0 ? SYNC : WRITE;
    fail_short = strcmp(error, "SHORT") == 0;
    fail_errno = strcmp(error, "EIO") == 0 ? EIO : ENOSPC;
  } else if (strcmp(line, "count") == 0) snprintf(answer, answer_size, "%ld\n", calls);
  else snprintf(answer, answer_size, "what?\n");
  pthread_mutex_unlock(&lock);
}

/* Reads one command and answers it; 0 when the test is gone. */
static int obey_next(void) {
  char line[LINE_MAX_BYTES], answer[LINE_MAX_BYTES];
  size_t length = 0;
  while (length < sizeof line - 1) {
    if (read(control, line + length, 1) != 1) return 0;
    if (line[length] == '\n') break;
    length += 1;
  }
  line[length] = 0;
  obey(line, answer, sizeof answer);
  return write(control, answer, strlen(answer)) > 0;
}

static void *listen_to_test(void *nothing) {
  while (obey_next()) {}
  return nothing;
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("TOLLGATE_DISK_FILE"), *socket_path = getenv("TOLLGATE_DISK_CONTROL");
  static const char *const suffixes[FILES_MAX] = {"", "-wal", "-journal"};
  if (!path || !socket_path) return;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, socket_path, sizeof address.sun_path - 1);
  control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(control, (struct sockaddr *)&address, sizeof address) != 0) abort();
  unsetenv("TOLLGATE_DISK_CONTROL");
  for (int at = 0; at < FILES_MAX; at += 1)
    snprintf(files[at].path, sizeof files[at].path, "%s%s", path, suffixes[at]);
  find_real_calls();
  /* The first command comes before the first call. */
  if (!obey_next()) abort();
  sigset_t all, before;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  if (pthread_create(&thread, NULL, listen_to_test, NULL) != 0) abort();
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}
