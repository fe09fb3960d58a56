/* The dense reference: whole rows of scores by NumPy's own OpenBLAS, softmax over the visible part, values by OpenBLAS.
   One thread at a time: the scores live in one buffer of this library, which grows and is never given back.

   Few queries: the rows of several heads of a KV head in one product. Many: blocks of one head's rows, so that the keys
   no row of a block sees are not computed. */
#include <stdlib.h>

#include "problem.h"
#include "vectors.h"

#ifndef ROW_BLOCK
#define ROW_BLOCK 16
#endif
/* Below these OpenBLAS multiplies without packing its operands, which for few rows is most of the work: scores a call
   where the keys are transposed, and multiplications a call where nothing is (0.3.31, its SkylakeX kernels). */
#ifndef SMALL_SCORES
#define SMALL_SCORES 1024
#endif
#ifndef SMALL_VALUES
#define SMALL_VALUES 520000
#endif
#ifndef GEMV_ROWS
#define GEMV_ROWS 1 /* up to so many rows each is a matrix-vector product */
#endif
#define LOG2_E 1.4426950408889634

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
typedef void gemm(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t,
                  float, float *, int64_t);
typedef void gemv(int, int, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t, float, float *,
                  int64_t);

static float *scores_of(int64_t count) {
    static float *buffer;
    static int64_t size;
    if (count > size) {
        free(buffer);
        size = (count + 1023) / 1024 * 1024;
        buffer = aligned_alloc(64, 4 * (size_t)size);
        if (!buffer) abort();
    }
    return buffer;
}

/* Replaces the scores by 2^(score - their maximum), the hidden ones by 0; the reciprocal of the sum, 0 if none. */
static float softmax_row(float *scores, int64_t visible, int64_t all) {
    const vec hidden = splat(HIDDEN);
    vec top[4] = {hidden, hidden, hidden, hidden}, sum[4] = {{0}};
    int64_t j = 0;
    for (; j + 4 * LANES <= visible; j += 4 * LANES)
        UNROLL for (int u = 0; u < 4; u++) top[u] = larger(top[u], load(scores + j + u * LANES));
    ivec lane = lane_numbers();
    for (int64_t at = j; at < visible; at += LANES)
        top[0] = larger(top[0], choose(lane < (int32_t)(visible - at), load_first(scores + at, visible - at), hidden));
    vec most = largest_of_run(larger(larger(top[0], top[1]), larger(top[2], top[3])), LANES);
    for (j = 0; j + 4 * LANES <= visible; j += 4 * LANES)
        UNROLL for (int u = 0; u < 4; u++) {
            vec p = exp2_of(load(scores + j + u * LANES) - most);
            store(scores + j + u * LANES, p);
            sum[u] += p;
        }
    for (; j < visible; j += LANES) {
        vec x = choose(lane < (int32_t)(visible - j), load_first(scores + j, visible - j) - most, hidden);
        vec p = exp2_of(x);
        store_first(scores + j, p, visible - j);
        sum[0] += p;
    }
    for (int64_t at = visible < 0 ? 0 : visible; at < all; at++) scores[at] = 0.0f;
    return visible <= 0 ? 0.0f : 1.0f / sum_of_run((sum[0] + sum[1]) + (sum[2] + sum[3]), LANES)[0];
}

static void scale_row(float *row, float by, int64_t length) {
    for (int64_t x = 0; x < length; x += LANES) store_first(row + x, load_first(row + x, length - x) * by, length - x);
}

/* Keys a product: `most` of them, which is never so few that the calls themselves show. */
static int64_t keys_at_once(int64_t rows, int64_t keys, int64_t most) {
    return rows <= GEMV_ROWS ? keys : most < 16 ? 16 : most;
}

/* `rows` rows of queries over `keys` keys, of which row r sees visible[r]. */
static void attend_rows(const problem *p, const float *q, const float *k, const float *v, float *out, int64_t rows,
                        int64_t keys, const int32_t *visible) {
    const float factor = (float)(p->scale * LOG2_E);
    const int64_t depth = p->depth, values = p->value_depth;
    gemm *sgemm = (gemm *)p->sgemm;
    gemv *sgemv = (gemv *)p->sgemv;
    float *scores = scores_of(rows * keys), inverse[ROW_BLOCK];
    int64_t most = keys_at_once(rows, keys, SMALL_SCORES / rows);
    for (int64_t j = 0; j < keys; j += most) {
        int64_t n = keys - j < most ? keys - j : most;
        if (rows <= GEMV_ROWS)
            for (int64_t r = 0; r < rows; r++)
                sgemv(ROW_MAJOR, PLAIN, n, depth, factor, k + j * depth, depth, q + r * depth, 1, 0.0f,
                      scores + r * keys + j, 1);
        else
            sgemm(ROW_MAJOR, PLAIN, TRANSPOSED, rows, n, depth, factor, q, depth, k + j * depth, depth, 0.0f,
                  scores + j, keys);
    }
    for (int64_t r = 0; r < rows; r++) inverse[r] = softmax_row(scores + r * keys, visible[r], keys);
    most = keys_at_once(rows, keys, SMALL_VALUES / (rows * values));
    for (int64_t j = 0; j < keys; j += most) {
        int64_t n = keys - j < most ? keys - j : most;
        float kept = j ? 1.0f : 0.0f;
        if (rows <= GEMV_ROWS)
            for (int64_t r = 0; r < rows; r++)
                sgemv(ROW_MAJOR, TRANSPOSED, n, values, 1.0f, v + j * values, values, scores + r * keys + j, 1, kept,
                      out + r * values, 1);
        else
            sgemm(ROW_MAJOR, PLAIN, PLAIN, rows, values, n, 1.0f, scores + j, keys, v + j * values, values, kept, out,
                  values);
    }
    for (int64_t r = 0; r < rows; r++) scale_row(out + r * values, keys > 0 ? inverse[r] : 0.0f, values);
}

static int64_t seen(const problem *p, int64_t query) {
    int64_t keys = p->causal ? query + p->keys - p->queries + 1 : p->keys;
    return keys < 0 ? 0 : keys;
}

/* q[B,Hq,Q,D], k[B,Hkv,K,D], v[B,Hkv,K,Dv], out[B,Hq,Q,Dv], contiguous. */
void dense_attention(const float *q, const float *k, const float *v, float *out, const problem *p) {
    const int64_t group = p->query_heads / p->kv_heads, queries = p->queries;
    const int64_t all = group * queries;
    for (int64_t h = 0; h < p->batch * p->kv_heads; h++)
        for (int64_t first = 0; first < all;) {
            /* Whole heads where they fit, else some rows of one: the last row of a block sees the most. */
            int64_t rows = queries <= ROW_BLOCK ? ROW_BLOCK / queries * queries : ROW_BLOCK;
            int64_t left = queries <= ROW_BLOCK ? all - first : queries - first % queries;
            rows = rows < left ? rows : left;
            int32_t visible[ROW_BLOCK];
            for (int64_t r = 0; r < rows; r++) visible[r] = (int32_t)seen(p, (first + r) % queries);
            int64_t row = h * all + first, last = seen(p, (first + rows - 1) % queries);
            attend_rows(p, q + row * p->depth, k + h * p->keys * p->depth, v + h * p->keys * p->value_depth,
                        out + row * p->value_depth, rows, last, visible);
            first += rows;
        }
}
