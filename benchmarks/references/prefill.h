/* Online-softmax attention of one tile of query rows across the lanes; every reduction is vertical.
   Must not know where the rows come from beyond their addresses.

   Q is packed transposed with the scale folded in; K and V are read in place as broadcasts; scores, running maximum,
   sum and accumulator all have the query row innermost. */
#ifndef REFERENCES_PREFILL_H
#define REFERENCES_PREFILL_H

#include "vectors.h"

#define MOST_VECTORS 2
#define TILE_ROWS (MOST_VECTORS * LANES)
#ifndef PREFILL_BLOCK
#define PREFILL_BLOCK 96
#endif
#define KEY_BLOCK 12
#define VALUE_BLOCK 8

/* Rows past `count` repeat the last one and are never stored. visible[r]: how many leading keys row r sees. */
typedef struct {
    int64_t count;
    const float *query[TILE_ROWS];
    float *out[TILE_ROWS];
    int32_t visible[TILE_ROWS] __attribute__((aligned(64)));
} row_tile;

/* packed[d][r] = scale * query[r][d] */
INLINE void pack_queries(const row_tile *tile, float *packed, const int nv, int64_t depth, float scale) {
    for (int64_t d = 0; d < depth; d += LANES)
        for (int v = 0; v < nv; v++) {
            vec x[LANES];
            UNROLL for (int r = 0; r < LANES; r++)
                x[r] = load_first(tile->query[v * LANES + r] + d, depth - d) * scale;
            transpose(x);
            UNROLL for (int t = 0; t < LANES; t++)
                if (d + t < depth) store(packed + ((d + t) * nv + v) * LANES, x[t]);
        }
}

INLINE void store_rows(const row_tile *tile, const float *acc, const vec *inverse, const int nv, int64_t value_depth) {
    for (int64_t e = 0; e < value_depth; e += LANES)
        for (int v = 0; v < nv; v++) {
            vec x[LANES];
            UNROLL for (int t = 0; t < LANES; t++)
                x[t] = e + t < value_depth ? load(acc + ((e + t) * nv + v) * LANES) * inverse[v] : (vec){0};
            transpose(x);
            UNROLL for (int r = 0; r < LANES; r++)
                if (v * LANES + r < tile->count) store_first(tile->out[v * LANES + r] + e, x[r], value_depth - e);
        }
}

/* scores[t][r] of `nk` keys at k, taken into `top`; keys from `first` on are hidden where visible[r] says so. */
INLINE void score_keys(const float *packed, const float *k, float *scores, vec *top, const ivec *visible, int32_t first,
                       int masked, const int nk, const int nv, int64_t depth) {
    vec acc[KEY_BLOCK][MOST_VECTORS];
    UNROLL for (int t = 0; t < nk; t++) UNROLL for (int v = 0; v < nv; v++) acc[t][v] = (vec){0};
    for (int64_t d = 0; d < depth; d++) {
        vec q[MOST_VECTORS];
        UNROLL for (int v = 0; v < nv; v++) q[v] = load(packed + (d * nv + v) * LANES);
        UNROLL for (int t = 0; t < nk; t++) {
            vec key = splat(k[t * depth + d]);
            UNROLL for (int v = 0; v < nv; v++) acc[t][v] += q[v] * key;
        }
    }
    if (masked)
        UNROLL for (int t = 0; t < nk; t++) UNROLL for (int v = 0; v < nv; v++)
            acc[t][v] = choose(visible[v] > first + t, acc[t][v], splat(HIDDEN));
    UNROLL for (int t = 0; t < nk; t++) UNROLL for (int v = 0; v < nv; v++) {
        top[v] = larger(top[v], acc[t][v]);
        store(scores + (t * nv + v) * LANES, acc[t][v]);
    }
}

/* acc[x][r] = acc[x][r] * alpha[r] + sum over n keys of weights[j][r] * values[j][x], for `nx` values. */
INLINE void weigh_values(const float *weights, const float *values, float *acc, const vec *alpha, int64_t n,
                         const int nx, const int nv, int64_t value_depth) {
    vec sum[VALUE_BLOCK][MOST_VECTORS];
    UNROLL for (int x = 0; x < nx; x++) UNROLL for (int v = 0; v < nv; v++)
        sum[x][v] = load(acc + (x * nv + v) * LANES) * alpha[v];
    for (int64_t j = 0; j < n; j++) {
        vec p[MOST_VECTORS];
        UNROLL for (int v = 0; v < nv; v++) p[v] = load(weights + (j * nv + v) * LANES);
        UNROLL for (int x = 0; x < nx; x++) {
            vec value = splat(values[j * value_depth + x]);
            UNROLL for (int v = 0; v < nv; v++) sum[x][v] += p[v] * value;
        }
    }
    UNROLL for (int x = 0; x < nx; x++) UNROLL for (int v = 0; v < nv; v++)
        store(acc + (x * nv + v) * LANES, sum[x][v]);
}

/* One tile over keys [0, last); those before `sure` are seen by every row. */
INLINE void attend_tile(const row_tile *tile, const float *k, const float *v, int64_t sure, int64_t last, float scale,
                        const int nv, int64_t depth, int64_t value_depth) {
    float packed[depth * nv * LANES] __attribute__((aligned(64)));
    float acc[value_depth * nv * LANES] __attribute__((aligned(64)));
    float scores[PREFILL_BLOCK * nv * LANES] __attribute__((aligned(64)));
    vec maximum[MOST_VECTORS], sum[MOST_VECTORS], alpha[MOST_VECTORS];
    ivec visible[MOST_VECTORS];
    UNROLL for (int u = 0; u < nv; u++) {
        maximum[u] = splat(NOTHING);
        sum[u] = (vec){0};
        memcpy(&visible[u], tile->visible + u * LANES, sizeof visible[u]);
    }
    pack_queries(tile, packed, nv, depth, scale);
    for (int64_t at = 0; at < value_depth * nv; at++) store(acc + at * LANES, (vec){0});

    for (int64_t begin = 0; begin < last; begin += PREFILL_BLOCK) {
        int64_t n = last - begin < PREFILL_BLOCK ? last - begin : PREFILL_BLOCK, j = 0;
        vec top[MOST_VECTORS];
        UNROLL for (int u = 0; u < nv; u++) top[u] = maximum[u];
#define SCORE(nk)                                                                                                   \
    for (; j + nk <= n; j += nk)                                                                                    \
    score_keys(packed, k + (begin + j) * depth, scores + j * nv * LANES, top, visible, (int32_t)(begin + j),        \
               begin + j + nk > sure, nk, nv, depth)
        SCORE(KEY_BLOCK);
        SCORE(6);
        SCORE(4);
        SCORE(2);
        SCORE(1);
#undef SCORE
        UNROLL for (int u = 0; u < nv; u++) {
            alpha[u] = exp2_of(maximum[u] - top[u]);
            maximum[u] = top[u];
            sum[u] *= alpha[u];
        }
        for (j = 0; j < n; j++)
            UNROLL for (int u = 0; u < nv; u++) {
                float *at = scores + (j * nv + u) * LANES;
                vec p = exp2_of(load(at) - top[u]);
                store(at, p);
                sum[u] += p;
            }
        int64_t x = 0;
#define WEIGH(nx)                                                                                                   \
    for (; x + nx <= value_depth; x += nx)                                                                          \
    weigh_values(scores, v + begin * value_depth + x, acc + x * nv * LANES, alpha, n, nx, nv, value_depth)
        WEIGH(VALUE_BLOCK);
        WEIGH(1);
#undef WEIGH
    }
    /* A row that sees no key is all zeros. */
    UNROLL for (int u = 0; u < nv; u++) alpha[u] = choose(sum[u] > 0.0f, 1.0f / sum[u], (vec){0});
    store_rows(tile, acc, alpha, nv, value_depth);
}

#endif
