/* What every reference is called with; the same fields, in the same order, as `_Problem` in __init__.py. */
#ifndef REFERENCES_PROBLEM_H
#define REFERENCES_PROBLEM_H

#include <stdint.h>

typedef struct {
    int64_t batch, query_heads, kv_heads, queries, keys, depth, value_depth;
    int64_t causal;
    double scale;
    void *sgemm, *sgemv; /* of NumPy's OpenBLAS, integers of 64 bits; for the dense reference only */
} problem;

#endif
