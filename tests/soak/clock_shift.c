/* Shifts the wall clock of the edge-agent by the seconds in the file SOAK_CLOCK, as a wrong clock of its host would.
   Preloaded into all services; only the process whose command line names the agent is shifted. The monotonic clock
   stays as it is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int chosen = -1;

static int read_file(const char *path, char *into, size_t size) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t length = read(file, into, size - 1);
  close(file);
  if (length < 0) length = 0;
  into[length] = 0;
  return (int)length;
}

static long shift(void) {
  char text[4096];
  if (chosen < 0) {
    int length = read_file("/proc/self/cmdline", text, sizeof text);
    for (int at = 0; at < length; at++)
      if (!text[at]) text[at] = ' ';
    chosen = strstr(text, "clusterra_edge_agent") != NULL;
  }
  const char *path = chosen ? getenv("SOAK_CLOCK") : NULL;
  return path && read_file(path, text, 32) ? strtol(text, NULL, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, at);
  if (!result && clock == CLOCK_REALTIME) at->tv_sec += shift();
  return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *into) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (into) *into = now.tv_sec;
  return now.tv_sec;
}
