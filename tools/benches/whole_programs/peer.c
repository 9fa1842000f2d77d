/* What the benchmark of whole programs compares with: the same in C. Prints the seconds of a run. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((noinline)) static uint32_t fib(uint32_t n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static uint32_t loop(uint32_t n, uint32_t x)
{
    while (n != 0) {
        x = x * 1664525u + n;
        n--;
    }
    return x;
}

struct list {
    struct list *rest;
    uint32_t first;
};

static struct list *cons(uint32_t first, struct list *rest)
{
    struct list *list = malloc(sizeof *list);
    list->first = first;
    list->rest = rest;
    return list;
}

/* A new list; the old one is freed. */
static struct list *map(struct list *list)
{
    struct list *first = NULL, **end = &first;
    while (list != NULL) {
        struct list *rest = list->rest;
        *end = cons(list->first * 3, NULL);
        end = &(*end)->rest;
        free(list);
        list = rest;
    }
    return first;
}

static uint32_t maps(uint32_t n)
{
    struct list *list = NULL;
    uint32_t sum = 0;
    for (; n != 0; n--) {
        list = cons(n, list);
    }
    for (int i = 0; i < 8; i++) {
        list = map(list);
    }
    while (list != NULL) {
        struct list *rest = list->rest;
        sum += list->first;
        free(list);
        list = rest;
    }
    return sum;
}

int main(int argc, char **argv)
{
    struct timespec start, end;
    volatile uint32_t result, n = 1;
    if (argc != 2) {
        return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (strcmp(argv[1], "fib") == 0) {
        result = fib(32 * n);
    } else if (strcmp(argv[1], "loop") == 0) {
        result = loop(100000000 * n, 1);
    } else {
        result = maps(1000000 * n);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    (void)result;
    printf("%.9f\n", (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9);
    return 0;
}
