/* A load generator for the HTTP benchmarks: keep-alive connections to 127.0.0.1, one request in flight on each.
 *
 * Bounded by a count and by a time, whichever comes first. A body may hold ###### once: it is replaced by a
 * six-digit number, --vary of them in turn, so that requests come from different users. Prints one JSON object.
 *
 * usage: load --port N [--connections N] [--requests N] [--seconds N] [--vary N] [--path P] [--body JSON]
 *        with a body it is POSTed, without one the path is fetched with GET
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 512,
    EVENTS_MAX = 256,
    VARY_MAX = 4096,
    REQUEST_BYTES_MAX = 4096,
    REPLY_BYTES_MAX = 65536,
    SECONDS_MAX = 600,
    SUB_BITS = 6, /* 64 steps to each doubling: a bucket is at most 1.6% wide */
    BUCKETS = 64 << SUB_BITS,
};

struct options {
    uint64_t port, connections, requests, seconds, vary;
    const char *path, *body;
};

struct connection {
    int fd;
    size_t reply_len;
    uint64_t sent_ns;
    char reply[REPLY_BYTES_MAX];
};

struct run {
    struct options o;
    char (*requests)[REQUEST_BYTES_MAX];
    size_t request_len;
    uint64_t sent, answered, not_200, reply_bytes;
    uint64_t buckets[BUCKETS];
    uint64_t slowest_ns;
};

static void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- latencies: buckets of constant relative width, so memory is bounded whatever comes ---- */

static unsigned bucket_of(uint64_t ns) {
    if (ns < (1 << SUB_BITS)) return (unsigned)ns;
    unsigned shift = 63 - (unsigned)__builtin_clzll(ns) - SUB_BITS;
    return ((shift + 1) << SUB_BITS) + (unsigned)((ns >> shift) - (1 << SUB_BITS));
}

static uint64_t bucket_top_ns(unsigned bucket) {
    unsigned shift = bucket >> SUB_BITS;
    if (shift == 0) return bucket;
    uint64_t step = (bucket & ((1 << SUB_BITS) - 1)) + (1 << SUB_BITS);
    return ((step + 1) << (shift - 1)) - 1;
}

static double percentile_us(const struct run *r, double share) {
    uint64_t seen = 0, wanted = (uint64_t)((double)r->answered * share);
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += r->buckets[i];
        if (seen > wanted) return (double)bucket_top_ns(i) / 1000.0;
    }
    return (double)r->slowest_ns / 1000.0;
}

/* ---- requests and replies ---- */

static void write_requests(struct run *r) {
    const struct options *o = &r->o;
    size_t body_len = o->body == NULL ? 0 : strlen(o->body);
    r->requests = calloc(o->vary, REQUEST_BYTES_MAX);
    if (r->requests == NULL) fail("no memory for %lu requests", (unsigned long)o->vary);
    for (uint64_t i = 0; i < o->vary; i++) {
        char *at = r->requests[i];
        int n = o->body == NULL
                    ? snprintf(at, REQUEST_BYTES_MAX, "GET %s HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", o->path)
                    : snprintf(at, REQUEST_BYTES_MAX,
                               "POST %s HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
                               "content-length: %zu\r\n\r\n%s",
                               o->path, body_len, o->body);
        if (n < 0 || n >= REQUEST_BYTES_MAX) fail("the request is longer than %d bytes", REQUEST_BYTES_MAX);
        r->request_len = (size_t)n;
        char *hole = strstr(at, "######"), digits[8];
        snprintf(digits, sizeof digits, "%06u", (unsigned)(i % 1000000));
        if (hole != NULL) memcpy(hole, digits, 6);
    }
}

static bool find_length(const char *at, const char *head_end, size_t *out) {
    static const char name[] = "content-length:";
    while ((at = memmem(at, (size_t)(head_end - at), "\r\n", 2)) != NULL) {
        at += 2;
        if ((size_t)(head_end - at) < sizeof name || strncasecmp(at, name, sizeof name - 1) != 0) continue;
        *out = 0;
        for (at += sizeof name - 1; *at == ' '; at++) continue;
        for (; *at >= '0' && *at <= '9' && *out <= REPLY_BYTES_MAX; at++) *out = *out * 10 + (size_t)(*at - '0');
        return *out <= REPLY_BYTES_MAX;
    }
    return false;
}

/* True when the reply in hand is whole. */
static bool reply_is_whole(const struct connection *c) {
    const char *head_end = memmem(c->reply, c->reply_len, "\r\n\r\n", 4);
    size_t body_len;
    if (head_end == NULL) return false;
    if (!find_length(c->reply, head_end + 2, &body_len)) fail("a reply without a usable content-length");
    size_t whole = (size_t)(head_end + 4 - c->reply) + body_len;
    if (c->reply_len > whole) fail("a reply longer than its content-length");
    return c->reply_len == whole;
}

static void send_request(struct run *r, struct connection *c) {
    const char *request = r->requests[r->sent % r->o.vary];
    c->reply_len = 0;
    c->sent_ns = now_ns();
    /* One request is in flight and far smaller than a socket buffer, so it goes in one piece. */
    ssize_t n = send(c->fd, request, r->request_len, MSG_NOSIGNAL);
    if (n != (ssize_t)r->request_len) fail("cannot send: %s", n < 0 ? strerror(errno) : "cut short");
    r->sent++;
}

/* True when the reply was completed by what came now. */
static bool receive(struct run *r, struct connection *c) {
    if (c->reply_len == REPLY_BYTES_MAX) fail("a reply longer than %d bytes", REPLY_BYTES_MAX);
    ssize_t n = recv(c->fd, c->reply + c->reply_len, REPLY_BYTES_MAX - c->reply_len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n <= 0) fail("the server closed a connection after %lu answers", (unsigned long)r->answered);
    c->reply_len += (size_t)n;
    if (!reply_is_whole(c)) return false;
    uint64_t took_ns = now_ns() - c->sent_ns;
    r->answered++;
    r->buckets[bucket_of(took_ns)]++;
    r->reply_bytes += c->reply_len;
    if (took_ns > r->slowest_ns) r->slowest_ns = took_ns;
    if (c->reply_len < 12 || memcmp(c->reply, "HTTP/1.1 200", 12) != 0) r->not_200++;
    return true;
}

/* ---- the run ---- */

static int connect_to(uint64_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        fail("cannot connect to 127.0.0.1:%lu: %s", (unsigned long)port, strerror(errno));
    return fd;
}

static double drive(struct run *r, struct connection *connections) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) fail("epoll: %s", strerror(errno));
    for (uint64_t i = 0; i < r->o.connections; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &connections[i]};
        connections[i].fd = connect_to(r->o.port);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, connections[i].fd, &e) != 0) fail("epoll: %s", strerror(errno));
    }
    uint64_t start = now_ns(), stop = start + r->o.seconds * 1000000000;
    struct epoll_event events[EVENTS_MAX];
    for (uint64_t i = 0; i < r->o.connections && r->sent < r->o.requests; i++) send_request(r, &connections[i]);
    bool late = false;
    while (r->answered < r->sent) {
        int n = epoll_wait(epoll, events, EVENTS_MAX, 10000);
        if (n == 0) fail("no answer for 10 s");
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (receive(r, c) && !late && r->sent < r->o.requests) send_request(r, c);
        }
        late = late || now_ns() >= stop;
    }
    double seconds = (double)(now_ns() - start) / 1e9;
    for (uint64_t i = 0; i < r->o.connections; i++) close(connections[i].fd);
    close(epoll);
    return seconds;
}

static uint64_t number(const char *name, const char *text, uint64_t most) {
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *text == '-' || n < 1 || n > most)
        fail("--%s must be a number from 1 to %lu, not \"%s\"", name, (unsigned long)most, text);
    return n;
}

static struct options read_options(int argc, char **argv) {
    static const struct option known[] = {
        {"port", required_argument, NULL, 'p'},    {"connections", required_argument, NULL, 'c'},
        {"requests", required_argument, NULL, 'n'}, {"seconds", required_argument, NULL, 's'},
        {"vary", required_argument, NULL, 'v'},    {"path", required_argument, NULL, 'u'},
        {"body", required_argument, NULL, 'b'},    {NULL, 0, NULL, 0},
    };
    struct options o = {0, 32, 100000, 30, 1, "/healthz", NULL};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'p') o.port = number("port", optarg, 65535);
        else if (c == 'c') o.connections = number("connections", optarg, CONNECTIONS_MAX);
        else if (c == 'n') o.requests = number("requests", optarg, 1000000000);
        else if (c == 's') o.seconds = number("seconds", optarg, SECONDS_MAX);
        else if (c == 'v') o.vary = number("vary", optarg, VARY_MAX);
        else if (c == 'u') o.path = optarg;
        else if (c == 'b') o.body = optarg;
        else exit(2);
    }
    if (o.port == 0 || optind != argc) fail("--port is needed, and nothing but options");
    return o;
}

int main(int argc, char **argv) {
    static struct run r;
    r.o = read_options(argc, argv);
    write_requests(&r);
    struct connection *connections = calloc(r.o.connections, sizeof *connections);
    if (connections == NULL) fail("no memory for %lu connections", (unsigned long)r.o.connections);
    double seconds = drive(&r, connections);
    printf("{\"requests\": %lu, \"seconds\": %.6f, \"requests_per_s\": %.1f, \"not_200\": %lu, "
           "\"request_bytes\": %zu, \"reply_bytes\": %.1f, \"p50_us\": %.1f, \"p90_us\": %.1f, "
           "\"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f}\n",
           (unsigned long)r.answered, seconds, (double)r.answered / seconds, (unsigned long)r.not_200,
           r.request_len, (double)r.reply_bytes / (double)r.answered, percentile_us(&r, 0.5),
           percentile_us(&r, 0.9), percentile_us(&r, 0.99), percentile_us(&r, 0.999),
           (double)r.slowest_ns / 1000.0);
    free(connections);
    free(r.requests);
    return r.not_200 == 0 ? 0 : 3;
}
