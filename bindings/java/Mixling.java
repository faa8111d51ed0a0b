import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * A saved mixling model: from a text to its labels, by libmixling.
 *
 * <p>Any number of threads may use one; they take turns. For threads that predict at the same time, load a model for each.
 */
public final class Mixling implements AutoCloseable {
    static {
        System.loadLibrary("mixling_jni");
    }

    /** A label with its probability. */
    public record Score(String label, double probability) {}

    /** A file that is no model, a model with parts that the library has not, or a text that the model cannot read. */
    public static final class MixlingException extends RuntimeException {
        public MixlingException(String message) {
            super(message);
        }
    }

    private final String task;
    private final List<String> labels;
    private final boolean abstains;
    private long handle;

    private Mixling(byte[] model, long cacheBytes) {
        handle = open(model, cacheBytes);
        task = text(task(handle));
        abstains = abstains(handle);
        List<String> names = new ArrayList<>();
        for (int i = 0; i < size(handle); i++) {
            names.add(text(label(handle, i)));
        }
        labels = List.copyOf(names);
    }

    /**
     * Load a model.
     *
     * @param file a `model.onnx`
     * @throws IOException the file cannot be read
     * @throws MixlingException it is no model that the library runs; the message has the reason
     */
    public static Mixling load(Path file) throws IOException {
        byte[] content = Files.readAllBytes(file);
        try {
            return new Mixling(content, 16 << 20);
        } catch (MixlingException error) {
            throw new MixlingException(file + ": " + error.getMessage());
        }
    }

    /** Load a model from the bytes of its file, with about this memory for words that were met. */
    public static Mixling load(byte[] model, long cacheBytes) {
        return new Mixling(model, cacheBytes);
    }

    /** Return "classification", "multi_label", "regression", "tagging" or "question_answering". */
    public String task() {
        return task;
    }

    /** Return the labels, in the order of the logits. */
    public List<String> labels() {
        return labels;
    }

    /** Return whether the model has a threshold, sets of labels or a rule for its answers, which are not applied here. */
    public boolean abstains() {
        return abstains;
    }

    /**
     * Return the most probable label of a text.
     *
     * @throws MixlingException the model does not classify texts, or reads several texts or columns
     */
    public String predict(String text) {
        return topK(text, 1).get(0).label();
    }

    /**
     * Return the most probable labels of a text, the most probable first.
     *
     * @param k how many, at least 1; there are at most as many as the model has labels
     */
    public List<Score> topK(String text, int k) {
        if (k < 1) {
            throw new IllegalArgumentException("k: got " + k + "; allowed: at least 1");
        }
        double[] found = probabilities(logits(text, null));
        List<Score> scores = new ArrayList<>();
        for (int i = 0; i < found.length; i++) {
            scores.add(new Score(labels.get(i), found[i]));
        }
        scores.sort(Comparator.comparingDouble(Score::probability).reversed());
        return List.copyOf(scores.subList(0, Math.min(k, scores.size())));
    }

    /** Return the raw scores of the labels for a text, or for a pair of texts; `second` may be null. */
    public synchronized float[] logits(String first, String second) {
        if (handle == 0) {
            throw new IllegalStateException("the model is closed");
        }
        return predict(handle, first.getBytes(StandardCharsets.UTF_8),
            second == null ? null : second.getBytes(StandardCharsets.UTF_8));
    }

    /** Return the probability of each label: by softmax, or of each by itself in a model of several labels. */
    public double[] probabilities(float[] logits) {
        double[] out = new double[logits.length];
        if (task.equals("multi_label")) {
            for (int i = 0; i < out.length; i++) {
                out[i] = 1 / (1 + Math.exp(-logits[i]));
            }
            return out;
        }
        if (!task.equals("classification")) {
            throw new MixlingException("the model's task is " + task + "; allowed: classification, multi_label");
        }
        double highest = Double.NEGATIVE_INFINITY;
        double sum = 0;
        for (float logit : logits) {
            highest = Math.max(highest, logit);
        }
        for (int i = 0; i < out.length; i++) {
            sum += out[i] = Math.exp(logits[i] - highest);
        }
        for (int i = 0; i < out.length; i++) {
            out[i] /= sum;
        }
        return out;
    }

    /** Free the memory of the model; it cannot be used afterwards. */
    @Override
    public synchronized void close() {
        if (handle != 0) {
            close(handle);
            handle = 0;
        }
    }

    private static String text(byte[] name) {
        return new String(name, StandardCharsets.UTF_8);
    }

    private static native long open(byte[] model, long cacheBytes);

    private static native void close(long handle);

    private static native byte[] task(long handle);

    private static native boolean abstains(long handle);

    private static native int size(long handle);

    private static native byte[] label(long handle, int index);

    private static native float[] predict(long handle, byte[] first, byte[] second);
}
