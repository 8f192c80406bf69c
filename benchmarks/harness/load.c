/* Requests a second: one client for every broker that is measured, quicker than any of them.

     load HOST PORT FILE IN_FLIGHT WARM_UP_SECONDS SECONDS

   FILE holds the connections: their number, and for each the number of its requests, and for each request its frame, the
   places of 64-bit offsets in it, and the response that is expected behind the correlation id. All numbers of the file
   are 32-bit, in the order of the machine. Each connection sends its requests in turn, IN_FLIGHT of them at a time, each
   with a correlation id and with offsets that nothing has sent before. Each response must be the expected one.

   Printed are requests a second, the median and the 99th percentile of the time to the response in microseconds, and the
   share of a core that the client took. */

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum { MAX_IN_FLIGHT = 1024, RECEIVE_BYTES = 1 << 20, MAX_LATENCIES = 1 << 24 };

struct request {
    uint32_t length, place_count, expected_length;
    unsigned char *frame, *expected;
    uint32_t *places;
};

struct connection {
    int socket;
    uint32_t request_count;
    struct request *requests;
    uint32_t next_to_send, next_to_receive; /* correlation ids */
    double sent_s[MAX_IN_FLIGHT];
    unsigned char *received;
    size_t received_length;
};

static uint32_t *latencies_us;
static size_t latency_count;
static uint64_t next_offset;

static void fail(const char *what) {
    fprintf(stderr, "load: %s\n", what);
    exit(1);
}

static void *allocate(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        fail("out of memory");
    return memory;
}

/* The file */

static void read_exactly(FILE *file, void *at, size_t length) {
    if (length && fread(at, length, 1, file) != 1)
        fail("the file ends too early");
}

static uint32_t read_number(FILE *file) {
    uint32_t number;
    read_exactly(file, &number, sizeof number);
    return number;
}

static void *read_bytes(FILE *file, uint32_t *length, size_t width) {
    *length = read_number(file);
    void *bytes = allocate(*length * width);
    read_exactly(file, bytes, *length * width);
    return bytes;
}

static struct connection *read_connections(const char *name, uint32_t *count) {
    FILE *file = fopen(name, "rb");
    if (!file)
        fail("the file cannot be opened");
    *count = read_number(file);
    struct connection *all = allocate(*count * sizeof *all);
    for (uint32_t i = 0; i < *count; i++) {
        all[i].request_count = read_number(file);
        all[i].requests = allocate(all[i].request_count * sizeof *all[i].requests);
        for (uint32_t k = 0; k < all[i].request_count; k++) {
            struct request *request = &all[i].requests[k];
            request->frame = read_bytes(file, &request->length, 1);
            request->places = read_bytes(file, &request->place_count, sizeof *request->places);
            request->expected = read_bytes(file, &request->expected_length, 1);
        }
    }
    fclose(file);
    return all;
}

/* One connection */

static void open_connection(struct connection *c, const char *host, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int yes = 1;
    c->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || connect(c->socket, (struct sockaddr *)&to, sizeof to))
        fail("cannot connect");
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    c->received = allocate(RECEIVE_BYTES);
}

static void send_requests(struct connection *c, unsigned count) {
    static unsigned char out[RECEIVE_BYTES];
    size_t length = 0;
    double sent_s = now_s();
    for (unsigned i = 0; i < count; i++) {
        const struct request *request = &c->requests[c->next_to_send % c->request_count];
        unsigned char *frame = out + length;
        if (length + request->length > sizeof out)
            fail("too many bytes in flight");
        memcpy(frame, request->frame, request->length);
        uint32_t correlation_id = htonl(c->next_to_send);
        memcpy(frame + 8, &correlation_id, 4);
        for (uint32_t k = 0; k < request->place_count; k++) {
            uint64_t offset = htobe64(++next_offset);
            memcpy(frame + request->places[k], &offset, 8);
        }
        c->sent_s[c->next_to_send++ % MAX_IN_FLIGHT] = sent_s;
        length += request->length;
    }
    for (size_t sent = 0; sent < length;) {
        ssize_t now = send(c->socket, out + sent, length - sent, MSG_NOSIGNAL);
        if (now <= 0)
            fail("the broker closed the connection");
        sent += (size_t)now;
    }
}

static void check(const struct connection *c, const unsigned char *frame, uint32_t length) {
    const struct request *request = &c->requests[c->next_to_receive % c->request_count];
    uint32_t correlation_id;
    memcpy(&correlation_id, frame, 4);
    if (ntohl(correlation_id) != c->next_to_receive)
        fail("a response has an unexpected correlation id");
    if (length != request->expected_length + 4 || memcmp(frame + 4, request->expected, request->expected_length))
        fail("a response is not the expected one");
}

static unsigned receive_responses(struct connection *c) {
    ssize_t length = recv(c->socket, c->received + c->received_length, RECEIVE_BYTES - c->received_length, MSG_DONTWAIT);
    if (length <= 0)
        fail("the broker closed the connection");
    c->received_length += (size_t)length;
    double received_s = now_s();
    unsigned count = 0;
    size_t at = 0;
    while (c->received_length - at >= 4) {
        uint32_t frame_length;
        memcpy(&frame_length, c->received + at, 4);
        frame_length = ntohl(frame_length);
        if (frame_length < 4 || frame_length + 4 > RECEIVE_BYTES)
            fail("a response has an impossible length");
        if (c->received_length - at < frame_length + 4)
            break;
        check(c, c->received + at + 4, frame_length);
        if (latency_count < MAX_LATENCIES)
            latencies_us[latency_count++] = (uint32_t)((received_s - c->sent_s[c->next_to_receive % MAX_IN_FLIGHT]) * 1e6);
        c->next_to_receive++;
        at += frame_length + 4;
        count++;
    }
    memmove(c->received, c->received + at, c->received_length - at);
    c->received_length -= at;
    return count;
}

static unsigned long exchange(int epoll, double seconds) {
    struct epoll_event ready[256];
    unsigned long response_count = 0;
    double end_s = now_s() + seconds;
    latency_count = 0;
    while (now_s() < end_s) {
        int count = epoll_wait(epoll, ready, 256, 1000);
        if (count < 0 && errno != EINTR)
            fail("epoll_wait failed");
        for (int i = 0; i < count; i++) {
            unsigned responses = receive_responses(ready[i].data.ptr);
            response_count += responses;
            if (responses)
                send_requests(ready[i].data.ptr, responses);
        }
    }
    return response_count;
}

static int compare(const void *a, const void *b) {
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    return (first > second) - (first < second);
}

int main(int argc, char **argv) {
    if (argc != 7)
        fail("usage: load HOST PORT FILE IN_FLIGHT WARM_UP_SECONDS SECONDS");
    int in_flight = atoi(argv[4]), epoll = epoll_create1(0);
    if (in_flight < 1 || in_flight > MAX_IN_FLIGHT)
        fail("between 1 and 1024 in flight");
    latencies_us = allocate(MAX_LATENCIES * sizeof *latencies_us);
    next_offset = (uint64_t)time(NULL) << 24;
    uint32_t count;
    struct connection *all = read_connections(argv[3], &count);
    for (uint32_t i = 0; i < count; i++) {
        open_connection(&all[i], argv[1], atoi(argv[2]));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].socket, &event);
        send_requests(&all[i], (unsigned)in_flight);
    }
    exchange(epoll, atof(argv[5]));
    double start_s = now_s(), cpu_s_before = cpu_s();
    unsigned long response_count = exchange(epoll, atof(argv[6]));
    double duration_s = now_s() - start_s, client_cpu_s = cpu_s() - cpu_s_before;
    qsort(latencies_us, latency_count, sizeof *latencies_us, compare);
    printf("%.0f %u %u %.2f\n", (double)response_count / duration_s, latency_count ? latencies_us[latency_count / 2] : 0,
           latency_count ? latencies_us[latency_count * 99 / 100] : 0, client_cpu_s / duration_s);
    return 0;
}
