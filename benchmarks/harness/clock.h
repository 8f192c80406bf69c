/* The clocks of the clients in C. */

#ifndef CLOCK_H
#define CLOCK_H

#include <sys/resource.h>
#include <time.h>

/* Seconds of a clock that is never set. */
static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Seconds that this process has used of the processors, for user and system. */
static double cpu_s(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

#endif
