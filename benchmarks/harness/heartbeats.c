/* Heartbeats a second: one client for every server that is measured, quicker than any of them.

     heartbeats HOST PORT CONNECTIONS IN_FLIGHT SECONDS

   Each connection is the only member of a group of its own; it joins and syncs. Then every connection keeps IN_FLIGHT
   heartbeats in flight and sends a new one after each response. Each response is checked: its length, its correlation
   id, and that its error code is 0. Printed are heartbeats a second, and the share of a core that the client took. */

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"

enum { JOIN_GROUP = 11, HEARTBEAT = 12, SYNC_GROUP = 14 };
enum { MAX_IN_FLIGHT = 1024, RESPONSE_BYTES = 14, TIMEOUT_MS = 30000 };
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
    unsigned next_to_send, next_to_receive;
    unsigned char received[RESPONSE_BYTES * MAX_IN_FLIGHT];
    size_t received_length;
};

static void fail(const char *what) {
    fprintf(stderr, "heartbeats: %s\n", what);
    exit(1);
}

/* Writing a request: numbers are big-endian, a string starts with its length. */

static void put(struct bytes *out, unsigned value, int width) {
    while (width--)
        out->at[out->length++] = (unsigned char)(value >> (8 * width));
}

static void put_string(struct bytes *out, const char *string) {
    put(out, (unsigned)strlen(string), 2);
    memcpy(out->at + out->length, string, strlen(string));
    out->length += strlen(string);
}

static struct bytes request(int api, int version) {
    struct bytes out = {.length = 4}; /* room for the length */
    put(&out, (unsigned)api, 2);
    put(&out, (unsigned)version, 2);
    put(&out, 0, 4); /* correlation id */
    put_string(&out, "bench");
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
            fail("the server closed the connection");
        at += sent;
        length -= (size_t)sent;
    }
}

/* Joining: one request, then its response, on a blocking socket. */

static void receive(int socket, unsigned char *at, size_t length) {
    if (recv(socket, at, length, MSG_WAITALL) != (ssize_t)length)
        fail("the server closed the connection while a member joined");
}

static void send_request(int socket, struct bytes *request) {
    set_number(request->at, (unsigned)request->length - 4);
    send_all(socket, request->at, request->length);
}

static struct bytes receive_response(int socket) {
    struct bytes response;
    unsigned char prefix[4];
    receive(socket, prefix, 4);
    response.length = number(prefix);
    if (response.length > sizeof response.at)
        fail("a response is longer than expected");
    receive(socket, response.at, response.length);
    return response;
}

static const unsigned char *take_string(const unsigned char *at, char *string, size_t capacity) {
    size_t length = (size_t)(at[0] << 8 | at[1]);
    if (length >= capacity)
        fail("a string is longer than expected");
    memcpy(string, at + 2, length);
    string[length] = 0;
    return at + 2 + length;
}

static void send_join_group(struct connection *c) { /* v3: no member id has to be requested first */
    static const unsigned char subscription[] = {0, 0, 0, 0, 0, 0, 255, 255, 255, 255}; /* v0, no topics, no data */
    struct bytes out = request(JOIN_GROUP, 3);
    put_string(&out, c->group);
    put(&out, TIMEOUT_MS, 4); /* session */
    put(&out, TIMEOUT_MS, 4); /* rebalance */
    put_string(&out, "");
    put_string(&out, "consumer");
    put(&out, 1, 4);
    put_string(&out, "range");
    put(&out, sizeof subscription, 4);
    memcpy(out.at + out.length, subscription, sizeof subscription);
    out.length += sizeof subscription;
    send_request(c->socket, &out);
}

static void receive_join_group(struct connection *c) {
    char ignored[256];
    struct bytes response = receive_response(c->socket);
    const unsigned char *at = response.at + 8; /* after the correlation id and throttle time */
    if (at[0] || at[1])
        fail("a JoinGroup response has an error code");
    c->generation = (int)number(at + 2);
    at = take_string(at + 6, ignored, sizeof ignored); /* protocol */
    at = take_string(at, ignored, sizeof ignored);     /* leader */
    take_string(at, c->member, sizeof c->member);
}

static void sync_group(struct connection *c) {
    struct bytes out = request(SYNC_GROUP, 2);
    put_string(&out, c->group);
    put(&out, (unsigned)c->generation, 4);
    put_string(&out, c->member);
    put(&out, 1, 4);
    put_string(&out, c->member);
    put(&out, 0, 4); /* an empty assignment */
    send_request(c->socket, &out);
    struct bytes response = receive_response(c->socket);
    if (response.at[8] || response.at[9])
        fail("a SyncGroup response has an error code");
}

static void prepare_heartbeat(struct connection *c) {
    c->heartbeat = request(HEARTBEAT, 3);
    put_string(&c->heartbeat, c->group);
    put(&c->heartbeat, (unsigned)c->generation, 4);
    put_string(&c->heartbeat, c->member);
    put(&c->heartbeat, 0xffff, 2); /* no instance id */
    set_number(c->heartbeat.at, (unsigned)c->heartbeat.length - 4);
}

static void open_connection(struct connection *c, const char *host, int port, unsigned index) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int yes = 1;
    c->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || connect(c->socket, (struct sockaddr *)&to, sizeof to))
        fail("cannot connect");
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    /* A group id of its own for every run: the server still has the groups of the run before. */
    snprintf(c->group, sizeof c->group, "bench-%d-%u", getpid(), index);
}

/* Heartbeats */

static void send_heartbeats(struct connection *c, unsigned count) {
    static unsigned char out[MAX_IN_FLIGHT * 512];
    size_t length = c->heartbeat.length;
    for (unsigned i = 0; i < count; i++) {
        memcpy(out + i * length, c->heartbeat.at, length);
        set_number(out + i * length + 8, c->next_to_send++);
    }
    send_all(c->socket, out, count * length);
}

static unsigned receive_responses(struct connection *c) {
    size_t capacity = sizeof c->received - c->received_length;
    ssize_t length = recv(c->socket, c->received + c->received_length, capacity, MSG_DONTWAIT);
    if (length <= 0)
        fail("the server closed the connection");
    c->received_length += (size_t)length;
    unsigned count = (unsigned)(c->received_length / RESPONSE_BYTES);
    for (unsigned i = 0; i < count; i++) {
        const unsigned char *response = c->received + i * RESPONSE_BYTES;
        if (number(response) != RESPONSE_BYTES - 4 || number(response + 4) != c->next_to_receive++)
            fail("a response has an unexpected length or correlation id");
        if (response[12] || response[13])
            fail("a heartbeat response has an error code");
    }
    c->received_length -= count * RESPONSE_BYTES;
    memmove(c->received, c->received + count * RESPONSE_BYTES, c->received_length);
    return count;
}

static unsigned long exchange(int epoll, double seconds) {
    struct epoll_event ready[256];
    unsigned long response_count = 0;
    double end_s = now_s() + seconds;
    while (now_s() < end_s) {
        int count = epoll_wait(epoll, ready, 256, 1000);
        for (int i = 0; i < count; i++) {
            unsigned responses = receive_responses(ready[i].data.ptr);
            response_count += responses;
            if (responses)
                send_heartbeats(ready[i].data.ptr, responses);
        }
    }
    return response_count;
}

int main(int argc, char **argv) {
    if (argc != 6)
        fail("usage: heartbeats HOST PORT CONNECTIONS IN_FLIGHT SECONDS");
    int connections = atoi(argv[3]), in_flight = atoi(argv[4]), epoll = epoll_create1(0);
    if (connections < 1 || in_flight < 1 || in_flight > MAX_IN_FLIGHT)
        fail("at least one connection, and between 1 and 1024 in flight");
    struct connection *all = calloc((size_t)connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        open_connection(&all[i], argv[1], atoi(argv[2]), (unsigned)i);
        send_join_group(&all[i]); /* for all connections first: a server may delay the first rebalance of a group */
    }
    for (int i = 0; i < connections; i++) {
        receive_join_group(&all[i]);
        sync_group(&all[i]);
        prepare_heartbeat(&all[i]);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].socket, &event);
        send_heartbeats(&all[i], (unsigned)in_flight);
    }
    exchange(epoll, WARM_UP_SECONDS);
    double start_s = now_s(), cpu_s_before = cpu_s();
    unsigned long response_count = exchange(epoll, atof(argv[5]));
    double duration_s = now_s() - start_s;
    printf("%.0f %.2f\n", (double)response_count / duration_s, (cpu_s() - cpu_s_before) / duration_s);
    return 0;
}
