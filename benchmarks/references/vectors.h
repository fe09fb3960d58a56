/* The vector vocabulary of the references: LANES floats in one register, exp2, masked access, transposition.
   Must not know what attention is.

   GCC's vector extensions carry the arithmetic; only what they cannot say well is written as AVX-512 intrinsics. */
#ifndef REFERENCES_VECTORS_H
#define REFERENCES_VECTORS_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512DQ__) && defined(__AVX512BW__)
#include <immintrin.h>
#define WIDE 1
#define LANES 16
#elif defined(__AVX2__)
#define WIDE 0
#define LANES 8
#else
#define WIDE 0
#define LANES 4
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

#define HIDDEN (-1e30f)   /* the score of a masked key: exp2 of it is 0, and it makes no NaN */
#define NOTHING (-1e29f)  /* the running maximum before any key: above HIDDEN, below every real score */

INLINE vec splat(float x) { return x - (vec){0}; }

INLINE vec load(const float *p) {
    vec x;
    memcpy(&x, p, sizeof x);
    return x;
}

#define LINE 16 /* floats in a cache line */

/* Asks for the cache line of p, which may lie past the end of what is mapped; into the second level, which has more
   misses in flight than the first (27 GB/s from memory against 17). */
INLINE void fetch(const float *p) { __builtin_prefetch(p, 0, 2); }

/* x, in a register: the compiler would rather read memory again at every use. */
INLINE vec held(vec x) {
#if LANES > 4
    __asm__("" : "+v"(x));
#endif
    return x;
}

INLINE void store(float *p, vec x) { memcpy(p, &x, sizeof x); }

/* The first `count` floats at p, then zeros; reads nothing else. */
INLINE vec load_first(const float *p, int64_t count) {
    if (count >= LANES) return load(p);
#if WIDE
    return _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), p);
#else
    vec x = {0};
    memcpy(&x, p, 4 * (size_t)count);
    return x;
#endif
}

INLINE void store_first(float *p, vec x, int64_t count) {
    if (count >= LANES) {
        store(p, x);
        return;
    }
#if WIDE
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << count) - 1), x);
#else
    memcpy(p, &x, 4 * (size_t)count);
#endif
}

/* `span` floats at p, repeated over the register; span is 16, 8, 4, 2 or 1, at most LANES. */
INLINE vec load_repeated(const float *p, const int span) {
    if (span == LANES) return load(p);
    if (span == 1) return splat(*p);
#if WIDE
    if (span == 8) return _mm512_broadcast_f32x8(_mm256_loadu_ps(p));
    if (span == 4) return _mm512_broadcast_f32x4(_mm_loadu_ps(p));
#endif
    vec x;
    UNROLL for (int at = 0; at < LANES; at += span) memcpy((float *)&x + at, p, 4 * (size_t)span);
    return x;
}

/* where ? yes : no, lane by lane; a lane of `where` is 0 or -1. */
INLINE vec choose(ivec where, vec yes, vec no) {
#if WIDE
    return _mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)where), no, yes);
#else
    return (vec)((where & (ivec)yes) | (~where & (ivec)no));
#endif
}

INLINE vec larger(vec a, vec b) {
#if WIDE
    return _mm512_max_ps(a, b);
#else
    return choose(a > b, a, b);
#endif
}

/* 2^x for x <= 0 and for HIDDEN; degree 6, largest relative error 8e-8 on [-20, 0] before the last rounding. */
INLINE vec exp2_of(vec x) {
#if WIDE
    vec whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    x = larger(x, splat(-127.0f));
    vec whole = (x + 12582912.0f) - 12582912.0f;
#endif
    vec r = x - whole;
    vec p = splat(0.00015345812f);
    p = p * r + 0.0013399931f;
    p = p * r + 0.009618489f;
    p = p * r + 0.055503286f;
    p = p * r + 0.24022646f;
    p = p * r + 0.6931472f;
    p = p * r + 1.0f;
#if WIDE
    return _mm512_scalef_ps(p, whole);
#else
    return p * (vec)((__builtin_convertvector(whole, ivec) + 127) << 23);
#endif
}

/* Lanes numbered from 0. */
INLINE ivec lane_numbers(void) {
    ivec n;
    UNROLL for (int l = 0; l < LANES; l++) n[l] = l;
    return n;
}

/* Lane l takes lane l ^ step of x. */
INLINE vec exchanged(vec x, const int step) { return __builtin_shuffle(x, lane_numbers() ^ step); }

/* The largest and the sum over each run of `span` lanes, in every lane of it. */
INLINE vec largest_of_run(vec x, const int span) {
    UNROLL for (int step = 1; step < span; step *= 2) x = larger(x, exchanged(x, step));
    return x;
}

INLINE vec sum_of_run(vec x, const int span) {
    UNROLL for (int step = 1; step < span; step *= 2) x += exchanged(x, step);
    return x;
}

/* Lanes l with (l & step) == 0 of a, and those of b put beside them; and the same of the other halves. */
INLINE vec even_runs(vec a, vec b, const int step) {
    ivec n = lane_numbers();
    return __builtin_shuffle(a, b, (n & ~step) + (((n & step) != 0) & LANES));
}

INLINE vec odd_runs(vec a, vec b, const int step) {
    ivec n = lane_numbers();
    return __builtin_shuffle(a, b, (n | step) + (((n & step) != 0) & LANES));
}

/* Two lanes of a and two of b in every four: those numbered `odd`, `odd` + 2. */
INLINE vec half_of_fours(vec a, vec b, const int odd) {
    ivec n = lane_numbers();
    return __builtin_shuffle(a, b, (n & ~3) + 2 * (n & 1) + odd + (((n & 2) != 0) & LANES));
}

/* Of `span` vectors, each with runs of `span` partial sums: lane run*span + t is the sum over that run of x[t].
   span - 1 steps of two shuffles and an add. */
INLINE vec transposing_sum(vec *x, const int span) {
    /* Fours in two rounds of one cheap shuffle within 128 bits; two rounds put the lanes back in order. */
    if (span >= 4)
        UNROLL for (int step = 1; step <= 2; step *= 2)
            UNROLL for (int t = 0; t < span; t += 2 * step)
                x[t] = half_of_fours(x[t], x[t + step], 0) + half_of_fours(x[t], x[t + step], 1);
    UNROLL for (int step = span >= 4 ? 4 : 1; step < span; step *= 2)
        UNROLL for (int t = 0; t < span; t += 2 * step)
            x[t] = even_runs(x[t], x[t + step], step) + odd_runs(x[t], x[t + step], step);
    return x[0];
}

/* Transposes LANES vectors in place. */
INLINE void transpose(vec *x) {
    UNROLL for (int step = 1; step < LANES; step *= 2)
        UNROLL for (int t = 0; t < LANES; t++) {
            if (t & step) continue;
            vec low = even_runs(x[t], x[t + step], step);
            x[t + step] = odd_runs(x[t], x[t + step], step);
            x[t] = low;
        }
}

#endif
