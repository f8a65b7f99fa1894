/* What the load generators share: latencies in buckets, a pace, a way to the server, options that are numbers. */
#ifndef LOAD_COMMON_H
#define LOAD_COMMON_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    SUB_BITS = 6, /* 64 steps to each doubling: a bucket is at most 1.6% wide */
    BUCKETS = 64 << SUB_BITS,
    ANSWER_MS_MAX = 10000,
};

static inline void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Latencies in buckets of constant relative width, so that memory is bounded whatever comes. */
struct histogram {
    uint64_t count, slowest_ns, buckets[BUCKETS];
};

static inline unsigned bucket_of(uint64_t ns) {
    if (ns < (1 << SUB_BITS)) return (unsigned)ns;
    unsigned shift = 63 - (unsigned)__builtin_clzll(ns) - SUB_BITS;
    return ((shift + 1) << SUB_BITS) + (unsigned)((ns >> shift) - (1 << SUB_BITS));
}

static inline uint64_t bucket_top_ns(unsigned bucket) {
    unsigned shift = bucket >> SUB_BITS;
    if (shift == 0) return bucket;
    uint64_t step = (bucket & ((1 << SUB_BITS) - 1)) + (1 << SUB_BITS);
    return ((step + 1) << (shift - 1)) - 1;
}

static inline void record(struct histogram *h, uint64_t ns) {
    h->count++;
    h->buckets[bucket_of(ns)]++;
    if (ns > h->slowest_ns) h->slowest_ns = ns;
}

static inline double percentile_us(const struct histogram *h, double share) {
    uint64_t seen = 0, wanted = (uint64_t)((double)h->count * share);
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen > wanted) return (double)bucket_top_ns(i) / 1000.0;
    }
    return (double)h->slowest_ns / 1000.0;
}

static inline void print_latencies(const struct histogram *h, const struct histogram *send_lag) {
    printf("\"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f, "
           "\"send_lag_p99_us\": %.1f",
           percentile_us(h, 0.5), percentile_us(h, 0.9), percentile_us(h, 0.99), percentile_us(h, 0.999),
           (double)h->slowest_ns / 1000.0, percentile_us(send_lag, 0.99));
}

/* When requests are meant to go out. At a rate, a request that had to wait for its turn is timed from when it was
 * due, so that a server's pause counts for all who would have come meanwhile. Without a rate (0), at any moment. */
struct pace {
    uint64_t rate_per_s, start_ns;
    int timer;
};

static inline struct pace new_pace(uint64_t rate_per_s, int epoll) {
    struct pace p = {rate_per_s, 0, timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)};
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    if (p.timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, p.timer, &e) != 0) fail("timer: %s", strerror(errno));
    prctl(PR_SET_TIMERSLACK, 1);
    p.start_ns = now_ns();
    return p;
}

static inline uint64_t due_ns(const struct pace *p, uint64_t nth, uint64_t now) {
    return p->rate_per_s == 0 ? now : p->start_ns + (uint64_t)((double)nth * 1e9 / (double)p->rate_per_s);
}

/* The timer wakes the epoll it belongs to; its event has no pointer. */
static inline void wake_at(const struct pace *p, uint64_t at_ns) {
    struct itimerspec when = {.it_value = {(time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000)}};
    if (timerfd_settime(p->timer, TFD_TIMER_ABSTIME, &when, NULL) != 0) fail("timer: %s", strerror(errno));
}

static inline void quiet_timer(const struct pace *p) {
    uint64_t times;
    if (read(p->timer, &times, sizeof times) < 0 && errno != EAGAIN) fail("timer: %s", strerror(errno));
}

static inline int connect_tcp(uint64_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        fail("cannot connect to 127.0.0.1:%lu: %s", (unsigned long)port, strerror(errno));
    return fd;
}

static inline int connect_unix(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof address.sun_path) fail("a socket's path this long cannot be used: %s", path);
    strcpy(address.sun_path, path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("cannot connect to %s: %s", path, strerror(errno));
    return fd;
}

static inline int connect_to(uint64_t port, const char *unix_path) {
    return unix_path != NULL ? connect_unix(unix_path) : connect_tcp(port);
}

static inline uint64_t number(const char *name, const char *text, uint64_t most) {
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *text == '-' || n < 1 || n > most)
        fail("--%s must be a number from 1 to %lu, not \"%s\"", name, (unsigned long)most, text);
    return n;
}

/* Puts a six-digit number where ###### is, if it is there. */
static inline void fill_hole(char *text, size_t len, uint64_t n) {
    char digits[8], *hole = memmem(text, len, "######", 6);
    snprintf(digits, sizeof digits, "%06u", (unsigned)(n % 1000000));
    if (hole != NULL) memcpy(hole, digits, 6);
}

#endif
