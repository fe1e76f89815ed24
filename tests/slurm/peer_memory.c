/* peer_memory FOLDER RANK SIZE: reads the memory of the next of SIZE processes by process_vm_readv(2), as MPI does
 * within a node. They meet in FOLDER. Prints "RANK read PEER", or why not. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { tries = 6000, pause_us = 10000 };

static char word[64];

static int number_in(const char *path, long *pid, void **where) {
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    int got = fscanf(file, "%ld %p\n.", pid, where);
    fclose(file);
    return got == 2;
}

static void put(const char *folder, const char *kind, int rank) {
    char path[512], other[520];
    snprintf(path, sizeof path, "%s/%s.%d", folder, kind, rank);
    snprintf(other, sizeof other, "%s.new", path);
    FILE *file = fopen(other, "w");
    if (!file) exit(2);
    fprintf(file, "%ld %p\n", (long)getpid(), (void *)word);
    fclose(file);
    if (rename(other, path) != 0) exit(2);
}

static void await(const char *folder, const char *kind, int rank, long *pid, void **where) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%d", folder, kind, rank);
    for (int i = 0; i < tries; ++i) {
        if (number_in(path, pid, where)) return;
        usleep(pause_us);
    }
    printf("%s has not come\n", path);
    exit(2);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const char *folder = argv[1];
    int rank = atoi(argv[2]), size = atoi(argv[3]), peer = (rank + 1) % size;
    snprintf(word, sizeof word, "of %d", rank);
    put(folder, "here", rank);
    long pid;
    void *where;
    await(folder, "here", peer, &pid, &where);
    char got[sizeof word] = "", wanted[sizeof word];
    struct iovec to = {got, sizeof got}, from = {where, sizeof got};
    snprintf(wanted, sizeof wanted, "of %d", peer);
    if (process_vm_readv((pid_t)pid, &to, 1, &from, 1, 0) < 0)
        printf("%d cannot read %d: %s\n", rank, peer, strerror(errno));
    else
        printf("%d read %d%s\n", rank, peer, strcmp(got, wanted) == 0 ? "" : ": other bytes");
    fflush(stdout);
    put(folder, "done", rank);
    /* The others read this one's memory. */
    for (int i = 0; i < size; ++i) await(folder, "done", i, &pid, &where);
    return 0;
}
