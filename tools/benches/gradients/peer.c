/* What the benchmark of gradients compares with: the objectives, in C as one writes them. `peer NAME FILE` reads the
   arguments of the objective, one after the other, and for each line that it is given prints the value and the seconds
   of a run. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double *doubles(FILE *file, size_t count)
{
    double *numbers = malloc(count * sizeof *numbers);
    if (numbers == NULL || fread(numbers, sizeof *numbers, count, file) != count) {
        exit(1);
    }
    return numbers;
}

static int32_t *integers(FILE *file, size_t count)
{
    int32_t *numbers = malloc(count * sizeof *numbers);
    if (numbers == NULL || fread(numbers, sizeof *numbers, count, file) != count) {
        exit(1);
    }
    return numbers;
}

static double log_sum_exp(const double *x, int count)
{
    double most = x[0], sum = 0;
    for (int i = 1; i < count; i++) {
        most = x[i] > most ? x[i] : most;
    }
    for (int i = 0; i < count; i++) {
        sum += exp(x[i] - most);
    }
    return most + log(sum);
}

/* The likelihood of points under a mixture of normal distributions with a Wishart prior. */
enum { PARTS = 25, AXES = 32, LOWER = AXES * (AXES - 1) / 2, POINTS = 1000 };

static struct {
    double *alphas, *means, *logs, *lower, *x;
} gmm_of;

static void gmm_read(FILE *file)
{
    gmm_of.alphas = doubles(file, PARTS);
    gmm_of.means = doubles(file, PARTS * AXES);
    gmm_of.logs = doubles(file, PARTS * AXES);
    gmm_of.lower = doubles(file, PARTS * LOWER);
    gmm_of.x = doubles(file, POINTS * AXES);
}

static double gmm(void)
{
    static double scales[PARTS][AXES], sums[PARTS], terms[PARTS], centered[AXES];
    double squares = 0, all = 0, likelihood = 0;
    for (int k = 0; k < PARTS; k++) {
        sums[k] = 0;
        for (int i = 0; i < AXES; i++) {
            double log_scale = gmm_of.logs[k * AXES + i];
            scales[k][i] = exp(log_scale);
            squares += scales[k][i] * scales[k][i];
            sums[k] += log_scale;
        }
        for (int i = 0; i < LOWER; i++) {
            double factor = gmm_of.lower[k * LOWER + i];
            squares += factor * factor;
        }
        all += sums[k];
    }
    for (int n = 0; n < POINTS; n++) {
        for (int k = 0; k < PARTS; k++) {
            const double *row = gmm_of.lower + k * LOWER;
            double distance = 0;
            for (int i = 0; i < AXES; i++) {
                centered[i] = gmm_of.x[n * AXES + i] - gmm_of.means[k * AXES + i];
            }
            for (int i = 0; i < AXES; i++) {
                double whitened = scales[k][i] * centered[i];
                for (int j = 0; j < i; j++) {
                    whitened += row[j] * centered[j];
                }
                row += i;
                distance += whitened * whitened;
            }
            terms[k] = gmm_of.alphas[k] + sums[k] - 0.5 * distance;
        }
        likelihood += log_sum_exp(terms, PARTS);
    }
    return likelihood - POINTS * log_sum_exp(gmm_of.alphas, PARTS) + 0.5 * squares - all;
}

/* The loss of a network of two layers that predicts characters, each place of its state by itself. */
enum { BITS = 14, CHARACTERS = 1024 };

static struct {
    double *weights, *biases, *extra, *state, *x;
} lstm_of;

static void lstm_read(FILE *file)
{
    lstm_of.weights = doubles(file, 2 * 4 * BITS);
    lstm_of.biases = doubles(file, 2 * 4 * BITS);
    lstm_of.extra = doubles(file, 3 * BITS);
    lstm_of.state = doubles(file, 4 * BITS);
    lstm_of.x = doubles(file, CHARACTERS * BITS);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double lstm(void)
{
    double state[4][BITS], input[BITS], scores[BITS], total = 0;
    memcpy(state, lstm_of.state, sizeof state);
    for (int t = 0; t < CHARACTERS - 1; t++) {
        double sum = 2;
        for (int i = 0; i < BITS; i++) {
            input[i] = lstm_of.x[t * BITS + i] * lstm_of.extra[i];
        }
        for (int layer = 0; layer < 2; layer++) {
            const double *weight = lstm_of.weights + layer * 4 * BITS;
            const double *bias = lstm_of.biases + layer * 4 * BITS;
            double *hidden = state[2 * layer], *cell = state[2 * layer + 1];
            for (int i = 0; i < BITS; i++) {
                double forget = sigmoid(input[i] * weight[i] + bias[i]);
                double in = sigmoid(hidden[i] * weight[BITS + i] + bias[BITS + i]);
                double out = sigmoid(input[i] * weight[2 * BITS + i] + bias[2 * BITS + i]);
                double change = tanh(hidden[i] * weight[3 * BITS + i] + bias[3 * BITS + i]);
                cell[i] = cell[i] * forget + in * change;
                hidden[i] = out * tanh(cell[i]);
                input[i] = hidden[i];
            }
        }
        for (int i = 0; i < BITS; i++) {
            scores[i] = input[i] * lstm_of.extra[BITS + i] + lstm_of.extra[2 * BITS + i];
            sum += exp(scores[i]);
        }
        sum = log(sum);
        for (int i = 0; i < BITS; i++) {
            total += lstm_of.x[(t + 1) * BITS + i] * (scores[i] - sum);
        }
    }
    return -total / ((CHARACTERS - 1) * BITS);
}

/* How far points are seen from where cameras should see them. */
enum { CAMERAS = 49, PLACES = 7776, SEEN = 31843 };

static struct {
    double *cameras, *points, *weight, *seen;
    int32_t *camera, *point;
} ba_of;

static void ba_read(FILE *file)
{
    ba_of.cameras = doubles(file, 11 * CAMERAS);
    ba_of.points = doubles(file, 3 * PLACES);
    ba_of.weight = doubles(file, SEEN);
    ba_of.camera = integers(file, SEEN);
    ba_of.point = integers(file, SEEN);
    ba_of.seen = doubles(file, 2 * SEEN);
}

static double ba(void)
{
    double total = 0;
    for (int n = 0; n < SEEN; n++) {
        double camera[11], from[3], axis[3], cross[3], turned[3];
        double angle = 0, along = 0;
        for (int i = 0; i < 11; i++) {
            camera[i] = ba_of.cameras[i * CAMERAS + ba_of.camera[n]];
        }
        for (int i = 0; i < 3; i++) {
            from[i] = ba_of.points[i * PLACES + ba_of.point[n]] - camera[3 + i];
            angle += camera[i] * camera[i];
        }
        angle = sqrt(angle);
        double cosine = cos(angle), sine = sin(angle);
        for (int i = 0; i < 3; i++) {
            axis[i] = camera[i] / angle;
            along += axis[i] * from[i];
        }
        along *= 1 - cosine;
        cross[0] = axis[1] * from[2] - axis[2] * from[1];
        cross[1] = axis[2] * from[0] - axis[0] * from[2];
        cross[2] = axis[0] * from[1] - axis[1] * from[0];
        for (int i = 0; i < 3; i++) {
            turned[i] = from[i] * cosine + cross[i] * sine + axis[i] * along;
        }
        double flat[2] = {turned[0] / turned[2], turned[1] / turned[2]};
        double square = flat[0] * flat[0] + flat[1] * flat[1];
        double bend = 1 + square * (camera[9] + camera[10] * square);
        double weight = ba_of.weight[n], rest = 1 - weight * weight;
        for (int i = 0; i < 2; i++) {
            double projected = camera[6] * bend * flat[i] + camera[7 + i];
            double error = weight * (projected - ba_of.seen[i * SEEN + n]);
            total += error * error;
        }
        total += rest * rest;
    }
    return total;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*read)(FILE *);
        double (*run)(void);
    } objectives[] = {{"gmm", gmm_read, gmm}, {"lstm", lstm_read, lstm}, {"ba", ba_read, ba}};
    FILE *file = argc == 3 ? fopen(argv[2], "rb") : NULL;
    for (size_t i = 0; file != NULL && i < sizeof objectives / sizeof *objectives; i++) {
        if (strcmp(objectives[i].name, argv[1]) == 0) {
            objectives[i].read(file);
            for (int c = getchar(); c != EOF; c = getchar()) {
                struct timespec start, end;
                clock_gettime(CLOCK_MONOTONIC, &start);
                double value = objectives[i].run();
                clock_gettime(CLOCK_MONOTONIC, &end);
                double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
                printf("%.17g %.9f\n", value, seconds);
                fflush(stdout);
            }
            return 0;
        }
    }
    return 1;
}
