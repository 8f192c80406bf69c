/* Heartbeats a second: one client for every coordinator that is measured, so that none of them waits for Python.

     heartbeats HOST PORT CONNECTIONS IN_FLIGHT SECONDS

   Each connection is the only member of a group of its own, joins it and synchronises. Then every connection keeps
   IN_FLIGHT heartbeats on the way and sends a new one for each answer. Each answer is checked: its length, its
   correlation id, and that its code is 0. Printed are heartbeats a second, and the share of a core this client took. */

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { JOIN_GROUP = 11, HEARTBEAT = 12, SYNC_GROUP = 14 };
enum { MOST_IN_FLIGHT = 1024, ANSWER_BYTES = 14, TIMEOUT_MS = 30000 };
#define WARM_UP_SECONDS 0.2

struct bytes {
    unsigned char at[4096];
    size_t length;
};

struct connection {
    int socket;
    char group[32];
    char member[256];
    int generation;
    struct bytes heartbeat;
    unsigned next_to_send, next_to_come;
    unsigned char held[ANSWER_BYTES * MOST_IN_FLIGHT];
    size_t held_length;
};

static void fail(const char *what) {
    fprintf(stderr, "heartbeats: %s\n", what);
    exit(1);
}

/* Writing a request: numbers are big-endian, a text has its length in front. */

static void put(struct bytes *out, unsigned value, int width) {
    while (width--)
        out->at[out->length++] = (unsigned char)(value >> (8 * width));
}

static void put_text(struct bytes *out, const char *text) {
    put(out, (unsigned)strlen(text), 2);
    memcpy(out->at + out->length, text, strlen(text));
    out->length += strlen(text);
}

static struct bytes request(int api, int version) {
    struct bytes out = {.length = 4}; /* room for the length */
    put(&out, (unsigned)api, 2);
    put(&out, (unsigned)version, 2);
    put(&out, 0, 4); /* correlation id */
    put_text(&out, "bench");
    return out;
}

static void set_number(unsigned char *at, unsigned value) {
    value = htonl(value);
    memcpy(at, &value, 4);
}

static unsigned number(const unsigned char *at) {
    unsigned value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static void send_all(int socket, const unsigned char *at, size_t length) {
    while (length) {
        ssize_t sent = send(socket, at, length, MSG_NOSIGNAL);
        if (sent <= 0)
            fail("the coordinator closed the connection");
        at += sent;
        length -= (size_t)sent;
    }
}

/* Joining: one request, one answer, on a socket that blocks. */

static void receive(int socket, unsigned char *at, size_t length) {
    if (recv(socket, at, length, MSG_WAITALL) != (ssize_t)length)
        fail("the coordinator closed the connection while a member joined");
}

static void ask(int socket, struct bytes *question) {
    set_number(question->at, (unsigned)question->length - 4);
    send_all(socket, question->at, question->length);
}

static struct bytes hear(int socket) {
    struct bytes answer;
    unsigned char prefix[4];
    receive(socket, prefix, 4);
    answer.length = number(prefix);
    if (answer.length > sizeof answer.at)
        fail("an answer is longer than expected");
    receive(socket, answer.at, answer.length);
    return answer;
}

static const unsigned char *take_text(const unsigned char *at, char *text, size_t room) {
    size_t length = (size_t)(at[0] << 8 | at[1]);
    if (length >= room)
        fail("a text is longer than expected");
    memcpy(text, at + 2, length);
    text[length] = 0;
    return at + 2 + length;
}

static void ask_to_join(struct connection *c) { /* v3: no id has to be fetched first */
    static const unsigned char subscription[] = {0, 0, 0, 0, 0, 0, 255, 255, 255, 255}; /* v0, no topics, no data */
    struct bytes out = request(JOIN_GROUP, 3);
    put_text(&out, c->group);
    put(&out, TIMEOUT_MS, 4); /* session */
    put(&out, TIMEOUT_MS, 4); /* rebalance */
    put_text(&out, "");
    put_text(&out, "consumer");
    put(&out, 1, 4);
    put_text(&out, "range");
    put(&out, sizeof subscription, 4);
    memcpy(out.at + out.length, subscription, sizeof subscription);
    out.length += sizeof subscription;
    ask(c->socket, &out);
}

static void hear_of_generation(struct connection *c) {
    char ignored[256];
    struct bytes answer = hear(c->socket);
    const unsigned char *at = answer.at + 8; /* behind correlation id and throttle time */
    if (at[0] || at[1])
        fail("JoinGroup was refused");
    c->generation = (int)number(at + 2);
    at = take_text(at + 6, ignored, sizeof ignored); /* protocol */
    at = take_text(at, ignored, sizeof ignored);     /* leader */
    take_text(at, c->member, sizeof c->member);
}

static void synchronise(struct connection *c) {
    struct bytes out = request(SYNC_GROUP, 2);
    put_text(&out, c->group);
    put(&out, (unsigned)c->generation, 4);
    put_text(&out, c->member);
    put(&out, 1, 4);
    put_text(&out, c->member);
    put(&out, 0, 4); /* an empty share */
    ask(c->socket, &out);
    struct bytes answer = hear(c->socket);
    if (answer.at[8] || answer.at[9])
        fail("SyncGroup was refused");
}

static void prepare(struct connection *c) {
    c->heartbeat = request(HEARTBEAT, 3);
    put_text(&c->heartbeat, c->group);
    put(&c->heartbeat, (unsigned)c->generation, 4);
    put_text(&c->heartbeat, c->member);
    put(&c->heartbeat, 0xffff, 2); /* no instance id */
    set_number(c->heartbeat.at, (unsigned)c->heartbeat.length - 4);
}

static void open_connection(struct connection *c, const char *host, int port, unsigned name) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int yes = 1;
    c->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || connect(c->socket, (struct sockaddr *)&to, sizeof to))
        fail("cannot connect");
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    /* A name of its own for every run: the coordinator may still remember the groups of the last one. */
    snprintf(c->group, sizeof c->group, "bench-%d-%u", getpid(), name);
}

/* Beating */

static void beat(struct connection *c, unsigned count) {
    static unsigned char out[MOST_IN_FLIGHT * 512];
    size_t length = c->heartbeat.length;
    for (unsigned i = 0; i < count; i++) {
        memcpy(out + i * length, c->heartbeat.at, length);
        set_number(out + i * length + 8, c->next_to_send++);
    }
    send_all(c->socket, out, count * length);
}

static unsigned take_answers(struct connection *c) {
    ssize_t got = recv(c->socket, c->held + c->held_length, sizeof c->held - c->held_length, MSG_DONTWAIT);
    if (got <= 0)
        fail("the coordinator closed the connection");
    c->held_length += (size_t)got;
    unsigned count = (unsigned)(c->held_length / ANSWER_BYTES);
    for (unsigned i = 0; i < count; i++) {
        const unsigned char *answer = c->held + i * ANSWER_BYTES;
        if (number(answer) != ANSWER_BYTES - 4 || number(answer + 4) != c->next_to_come++)
            fail("an answer belongs to no request, or to another one");
        if (answer[12] || answer[13])
            fail("a heartbeat was refused");
    }
    c->held_length -= count * ANSWER_BYTES;
    memmove(c->held, c->held + count * ANSWER_BYTES, c->held_length);
    return count;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double used(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static unsigned long serve(int epoll, double seconds) {
    struct epoll_event ready[256];
    unsigned long answers = 0;
    double until = now() + seconds;
    while (now() < until) {
        int count = epoll_wait(epoll, ready, 256, 1000);
        for (int i = 0; i < count; i++) {
            unsigned came = take_answers(ready[i].data.ptr);
            answers += came;
            if (came)
                beat(ready[i].data.ptr, came);
        }
    }
    return answers;
}

int main(int argc, char **argv) {
    if (argc != 6)
        fail("usage: heartbeats HOST PORT CONNECTIONS IN_FLIGHT SECONDS");
    int connections = atoi(argv[3]), in_flight = atoi(argv[4]), epoll = epoll_create1(0);
    if (connections < 1 || in_flight < 1 || in_flight > MOST_IN_FLIGHT)
        fail("at least one connection, and between 1 and 1024 in flight");
    struct connection *all = calloc((size_t)connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        open_connection(&all[i], argv[1], atoi(argv[2]), (unsigned)i);
        ask_to_join(&all[i]); /* all at once: a group may wait for seconds before its first generation */
    }
    for (int i = 0; i < connections; i++) {
        hear_of_generation(&all[i]);
        synchronise(&all[i]);
        prepare(&all[i]);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].socket, &event);
        beat(&all[i], (unsigned)in_flight);
    }
    serve(epoll, WARM_UP_SECONDS);
    double started = now(), used_before = used();
    unsigned long answers = serve(epoll, atof(argv[5]));
    double took = now() - started;
    printf("%.0f %.2f\n", (double)answers / took, (used() - used_before) / took);
    return 0;
}
