/* The native methods of Mixling.java, over mixling.h. */

#include <jni.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mixling.h"

typedef struct {
    mixling_model *model;
    mixling_worker *worker;
} opened;

static void fail(JNIEnv *env, const char *message) {
    jclass kind = (*env)->FindClass(env, "Mixling$MixlingException");
    if (kind) (*env)->ThrowNew(env, kind, message);
}

static void fail_of_code(JNIEnv *env, const opened *of, int code) {
    if (code == MIXLING_MEMORY) return fail(env, "out of memory");
    if (mixling_per_token(of->model)) return fail(env, "the model answers words or questions, which is not bound here");
    if (mixling_num_columns(of->model))
        return fail(env, "the model reads columns beside the text, which is not bound here");
    fail(env, "the model reads another number of texts");
}

static opened *at(jlong handle) { return (opened *)(uintptr_t)handle; }

/* Java's own strings in C are modified UTF-8, so names are passed as bytes. */
static jbyteArray bytes(JNIEnv *env, const char *text) {
    jsize size = (jsize)strlen(text);
    jbyteArray out = (*env)->NewByteArray(env, size);
    if (out) (*env)->SetByteArrayRegion(env, out, 0, size, (const jbyte *)text);
    return out;
}

JNIEXPORT jlong JNICALL Java_Mixling_open(JNIEnv *env, jclass class, jbyteArray content, jlong cache) {
    (void)class;
    char reason[300];
    opened *out = calloc(1, sizeof *out);
    jbyte *data = out ? (*env)->GetByteArrayElements(env, content, NULL) : NULL;
    if (!data) {
        free(out);
        return fail(env, "out of memory"), 0;
    }
    size_t size = (size_t)(*env)->GetArrayLength(env, content);
    int code = mixling_open(data, size, &out->model, reason, sizeof reason);
    (*env)->ReleaseByteArrayElements(env, content, data, JNI_ABORT);
    if (code != MIXLING_OK) {
        free(out);
        return fail(env, reason), 0;
    }
    /* The seed keeps authors of texts from choosing words that collide in the cache. */
    uint64_t seed = (uint64_t)time(NULL) * 0x9e3779b97f4a7c15u ^ (uint64_t)(uintptr_t)out;
    if (mixling_start(out->model, cache > 0 ? (size_t)cache : 0, seed, &out->worker) != MIXLING_OK) {
        mixling_close(out->model);
        free(out);
        return fail(env, "out of memory"), 0;
    }
    return (jlong)(uintptr_t)out;
}

JNIEXPORT void JNICALL Java_Mixling_close(JNIEnv *env, jclass class, jlong handle) {
    (void)env, (void)class;
    mixling_stop(at(handle)->worker);
    mixling_close(at(handle)->model);
    free(at(handle));
}

JNIEXPORT jbyteArray JNICALL Java_Mixling_task(JNIEnv *env, jclass class, jlong handle) {
    (void)class;
    return bytes(env, mixling_task(at(handle)->model));
}

JNIEXPORT jboolean JNICALL Java_Mixling_abstains(JNIEnv *env, jclass class, jlong handle) {
    (void)env, (void)class;
    return mixling_abstains(at(handle)->model) != 0;
}

JNIEXPORT jint JNICALL Java_Mixling_size(JNIEnv *env, jclass class, jlong handle) {
    (void)env, (void)class;
    return (jint)mixling_num_labels(at(handle)->model);
}

JNIEXPORT jbyteArray JNICALL Java_Mixling_label(JNIEnv *env, jclass class, jlong handle, jint index) {
    (void)class;
    return bytes(env, mixling_label(at(handle)->model, (size_t)index));
}

JNIEXPORT jfloatArray JNICALL
Java_Mixling_predict(JNIEnv *env, jclass class, jlong handle, jbyteArray first, jbyteArray second) {
    (void)class;
    opened *of = at(handle);
    size_t labels = mixling_num_labels(of->model);
    float *logits = calloc(labels ? labels : 1, sizeof *logits);
    jbyte *texts[2] = {(*env)->GetByteArrayElements(env, first, NULL), NULL};
    if (second) texts[1] = (*env)->GetByteArrayElements(env, second, NULL);
    jfloatArray out = NULL;
    int code = MIXLING_MEMORY;
    if (logits && texts[0] && (!second || texts[1])) {
        mixling_text text = {(const char *)texts[0], (size_t)(*env)->GetArrayLength(env, first), NULL, 0, NULL};
        if (second) {
            text.second = (const char *)texts[1];
            text.second_size = (size_t)(*env)->GetArrayLength(env, second);
        }
        uint8_t flags;
        code = mixling_predict_long(of->worker, &text, 1, logits, &flags);
    }
    if (texts[0]) (*env)->ReleaseByteArrayElements(env, first, texts[0], JNI_ABORT);
    if (texts[1]) (*env)->ReleaseByteArrayElements(env, second, texts[1], JNI_ABORT);
    if (code != MIXLING_OK)
        fail_of_code(env, of, code);
    else if ((out = (*env)->NewFloatArray(env, (jsize)labels)))
        (*env)->SetFloatArrayRegion(env, out, 0, (jsize)labels, logits);
    free(logits);
    return out;
}
