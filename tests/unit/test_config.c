/* test_config.c - jobs as people write them, right and wrong. */
#include "node/job/config.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/job/config_key.h"
#include "tests/support/test.h"

static const char base[] = "model: [flatten, dense: 10]\n";

static struct config *
parse(const char *text)
{
    struct why why = {""};
    struct config *config;
    if (config_parse(&config, "job.yaml", text, strlen(text), &why))
        fail_msg("refused: %s", why.line);
    return config;
}

/* Parsed and checked. */
static int
try(const char *text, size_t size, struct why *why)
{
    OWNED(config_destroy) struct config *config;
    int rc = config_parse(&config, "job.yaml", text, size, why);
    if (rc == 0)
        rc = config_check(config, why);
    return rc;
}

/* One line that is printable and holds every part of `parts`, which are separated by `|`. */
static void
expect_line(const char *what, const char *why, const char *parts)
{
    char copy[512], *rest = copy;
    snprintf(copy, sizeof copy, "%s", parts);
    if (*why == '\0' || strchr(why, '\n') || strchr(why, '\033'))
        fail_msg("%s: not one clean line: '%s'", what, why);
    for (char *part; (part = strsep(&rest, "|"));)
        if (!strstr(why, part))
            fail_msg("%s: '%s' does not say '%s'", what, why, part);
}

static const struct {
    const char *text, *parts;
} bad[] = {
    /* the file */
    {"", "job.yaml:1:|empty"},
    {"# nothing\n", "empty"},
    {"---\n", "expected sections"},
    {"just text", "expected sections"},
    {"[1, 2]", "expected sections"},
    {"model: [dense: 3]\n---\nmodel: [dense: 3]\n", "job.yaml:2:|one document"},
    {"train: {epochs: 3", "job.yaml|is missing"},
    {"train:\n\tepochs: 3\n", "job.yaml:2:|a tab before the first word"},
    {"train: {epochs: \"3\n", "the file ends within quotes"},
    {"a: *b\n", "unknown section a"},
    {"train: {epochs: *b}\n", "aliases"},
    {"train: &x {epochs: 3}\n", "anchors"},
    {"train: {epochs: !!int 3}\n", "tags"},
    {"? [a, b]\n: c\n", "name of a key"},
    {"train: {run: {name: x}}\n", "unknown key train.run"},
    {"train: {epochs: \"a\\0b\"}\n", "NUL"},
    /* sections and keys */
    {"trian: {epochs: 3}\n", "job.yaml:1:|unknown section trian|did you mean train?"},
    {"server: {}\n", "unknown section server|run, data, model, train, mesh, gossip or node"},
    {"train: 3\n", "train: {key: value}"},
    {"train: [epochs]\n", "train: {key: value}"},
    {"train:\n", "train: {key: value}"},
    {"train: {epochs: 3}\ntrain: {epochs: 4}\n", "job.yaml:2:|train is given twice"},
    {"train:\n  epochs: 3\n  epochs: 4\n", "job.yaml:3:|train.epochs is given twice"},
    {"train:\n  bach: 3\n", "job.yaml:2:|unknown key train.bach|did you mean train.batch?"},
    {"train: {optimiser: adam}\n", "did you mean train.optimizer?"},
    {"data: {batch: 12}\n", "unknown key data.batch|did you mean train.batch?"},
    {"train: {learning: 1}\n", "unknown key train.learning|expected one of loss epochs"},
    {"mesh: {sync: fast}\n", "mesh.sync = fast|expected bsp"},
    {"mesh: {compress: zip}\n", "mesh.compress = zip|expected none, int16, int8"},
    {"mesh: {compress_span: 0}\n", "mesh.compress_span = 0"},
    {"data: {private: yes}\n", "unknown key data.private"},
    {"run: {\"na\\x1b[31mme\": x}\n", "unknown key run.na\\x1b[31mme"},
    /* values */
    {"train: {epochs: 0}\n", "job.yaml:1:|train.epochs = 0|1..1000000"},
    {"train: {epochs: -3}\n", "train.epochs = -3"},
    {"train: {epochs: +3}\n", "train.epochs = +3"},
    {"train: {epochs: 3.0}\n", "train.epochs = 3.0|whole number"},
    {"train: {epochs: 1e3}\n", "train.epochs = 1e3"},
    {"train: {epochs: 0x10}\n", "train.epochs = 0x10"},
    {"train: {epochs: 010}\n", "train.epochs = 010"},
    {"train: {epochs: 3 4}\n", "train.epochs = 3 4"},
    {"train: {epochs: 99999999999999999999}\n", "train.epochs = 99999999999999999999"},
    {"train: {epochs: }\n", "train.epochs = \"\""},
    {"train: {epochs: [3]}\n", "train.epochs|single value"},
    {"train: {epochs: {a: 3}}\n", "train.epochs|single value"},
    {"run: {seed: 9007199254740993}\n", "run.seed = 9007199254740993"},
    {"run: {name: ../../etc}\n", "run.name = ../../etc|letters"},
    {"run: {name: .hidden}\n", "run.name"},
    {"run: {name: -rf}\n", "run.name = -rf"},
    {"run: {numerics: fast}\n", "run.numerics = fast|auto, portable or openblas"},
    {"data: {source: mnist}\n", "data.source = mnist|glyphs, idx"},
    {"data: {source: texts}\n", "data.source = texts"},
    {"data: {test_share: 1}\n", "data.test_share = 1|0.001..0.9"},
    {"data:\n  test_share: 0,2\n", "job.yaml:2:|data.test_share = 0,2"},
    {"data: {test_share: nan}\n", "data.test_share = nan"},
    {"data: {dir: \"a\\tb\"}\n", "data.dir = a\\x09b|printable"},
    {"data: {regression: maybe}\n", "data.regression = maybe|yes, no, true or false"},
    {"train: {loss: cross-entropy}\n", "train.loss = cross-entropy|cross_entropy"},
    {"train: {batch: 0}\n", "train.batch = 0"},
    {"train: {shards: 0}\n", "train.shards = 0|1..64"},
    {"train: {shards: 65}\n", "train.shards = 65"},
    {"train: {shards: 1000000}\n", "train.shards = 1000000"},
    {"mesh: {stages: 0}\n", "mesh.stages = 0|1..64 or auto"},
    {"mesh: {stages: 65}\n", "mesh.stages = 65|1..64 or auto"},
    {"mesh: {stages: all}\n", "mesh.stages = all|1..64 or auto"},
    {"mesh: {schedule: zbv}\n", "mesh.schedule = zbv|expected gpipe, 1f1b or zb"},
    {"mesh: {topology: server, servers: 0}\n", "mesh.servers = 0|1..64 or auto"},
    {"mesh: {topology: server, servers: 65}\n", "mesh.servers = 65|1..64 or auto"},
    {"mesh: {topology: server, servers: all}\n", "mesh.servers = all|1..64 or auto"},
    {"mesh: {topology: server, servers: 3, peers: 2}\nmodel: [dense: 10]\n",
     "job.yaml:1: mesh.servers = 3|mesh.peers = 2|fewer servers"},
    {"mesh: {port: 65536}\n", "mesh.port = 65536|0..65535"},
    {"mesh: {port: -1}\n", "mesh.port = -1"},
    {"mesh: {peers: 65}\n", "mesh.peers = 65|0..64"},
    {"mesh: {bucket: 1}\n", "mesh.bucket = 1|4096.."},
    {"mesh: {seeds: [host]}\n", "mesh.seeds = host|HOST:PORT"},
    {"mesh: {seeds: ['host:0']}\n", "mesh.seeds = host:0"},
    {"mesh: {seeds: ['::1:5']}\n", "mesh.seeds = ::1:5"},
    {"mesh: {seeds: ['host:65536']}\n", "mesh.seeds = host:65536"},
    {"mesh: {seeds: ['host:-1']}\n", "mesh.seeds = host:-1"},
    {"node: {threads: 257}\n", "node.threads = 257"},
    {"node: {log: loud}\n", "node.log = loud|error, warning, info or debug"},
    /* choices */
    {"train: {optimizer: sdg}\n",
     "train.optimizer = sdg|sgd, adam, adamw, rmsprop, lion, lars or lamb"},
    {"train: {optimizer: {sgd: {rate: 0}}}\n", "train.optimizer.sgd.rate = 0|1e-09..1000"},
    {"train: {optimizer: {sgd: -0.1}}\n", "train.optimizer.sgd.rate = -0.1"},
    {"train: {optimizer: {sgd: {rate: inf}}}\n", "train.optimizer.sgd.rate = inf"},
    {"train: {optimizer: {sgd: nan}}\n", "train.optimizer.sgd.rate = nan"},
    {"train: {optimizer: {sgd: 1e400}}\n", "train.optimizer.sgd.rate = 1e400"},
    {"train: {optimizer: {sgd: {rate: 0.1x}}}\n", "rate = 0.1x"},
    {"train: {optimizer: {sgd: {lr: 0.1}}}\n", "unknown key train.optimizer.sgd.lr|rate momentum"},
    {"train: {optimizer: {sgd: {beta1: 0.1}}}\n", "unknown key train.optimizer.sgd.beta1"},
    {"train: {optimizer: {sgd: {momentum: 1}}}\n", "momentum = 1"},
    {"train: {optimizer: {rmsprop: {alpha: 1}}}\n", "train.optimizer.rmsprop.alpha = 1|0..0.99999"},
    {"train: {optimizer: {lion: {epsilon: 1}}}\n", "unknown key train.optimizer.lion.epsilon"},
    {"train: {optimizer: {lars: {trust: 0}}}\n", "train.optimizer.lars.trust = 0|1e-09..1000"},
    {"train: {optimizer: {lamb: {weight_decay: 2}}}\n", "train.optimizer.lamb.weight_decay = 2"},
    {"train: {optimizer: {sgd: {rate: 1, rate: 2}}}\n", "rate is given twice"},
    {"train: {optimizer: {sgd: 1, adam: 1}}\n", "one name and its settings"},
    {"train: {optimizer: {}}\n", "a name"},
    {"train: {optimizer: [sgd]}\n", "single value"},
    {"train: {schedule: {constant: 3}}\n", "train.schedule.constant takes no settings"},
    {"train: {schedule: {step: {gamma: 0}}}\n", "gamma = 0"},
    /* models */
    {"model: {dense: 3}\n", "list of layers"},
    {"model: 3\n", "list of layers"},
    {"model: []\n", "no layers"},
    {"run: {name: x}\n", "no layers"},
    {"model:\n  - flatten\n  - dens: 10\n", "job.yaml:3:|model.layer = dens|dense, conv"},
    {"model: [dense]\n", "model.dense needs units"},
    {"model: [dense: {bias: no}]\n", "model.dense needs units"},
    {"model: [dense: 0]\n", "model.dense.units = 0"},
    {"model: [dense: 99999999999]\n", "model.dense.units = 99999999999"},
    {"model: [dense: {units: 3, unit: 4}]\n", "model.dense.unit|did you mean model.dense.units?"},
    {"model: [conv: {kernel: 3}]\n", "model.conv needs filters"},
    {"model: [conv: {filters: 3, kernel: 0}]\n", "model.conv.kernel = 0"},
    {"model: [relu: 3]\n", "model.relu takes no settings"},
    {"model: [{relu: , dense: 3}]\n", "takes no settings"},
    {"model: [{dense: 3, relu: }]\n", "one name and its settings"},
    {"model: [[dense, 3]]\n", "layer"},
    {"model: [dropout: 1]\n", "model.dropout.drop = 1"},
    {"model: [residual]\n", "job.yaml:1: residual needs a list of layers"},
    {"model: [residual: 3]\n", "expected a list of layers in residual"},
    {"model: [residual: [relu], relu: 1]\n", "relu takes no settings"},
    {"model: [{residual: [relu], tanh: 1}]\n", "expected one layer per line"},
    {"model: [residual: [input: [1]]]\n", "model.input comes before all layers"},
    {"model: [residual: [residual: [residual: [residual: [residual: [relu]]]]]]\n",
     "residuals more than 4 deep"},
    {"model: [residual: [reul]]\n", "model.layer = reul, expected"},
    {"model: [attention]\n", "model.attention needs heads"},
    {"model: [gelu: 1]\n", "model.gelu.approximate = 1, expected none or tanh"},
    {"model: [layernorm: 0]\n", "model.layernorm.epsilon = 0, expected a number 1e-12..1"},
    {"model: [positions: sines]\n", "model.positions.kind = sines, expected learned or sinusoidal"},
    {"model: [embedding: {tokens: 3}]\n", "model.embedding needs units"},
    {"model: [flatten, input: 3]\n", "comes before all layers"},
    {"model: [input: 3, input: 4]\n", "model.input is given twice"},
    {"model: [flatten, from: a]\n", "model.from comes before all layers"},
    {"model: [from: [a]]\n", "model.from: expected a single value"},
    {"model: [from: a, from: b]\n", "model.from is given twice"},
    {"model: [input: [1, 2, 3, 4]]\n", "too many values"},
    {"model: [input: [1, 0, 3]]\n", "model.input = 0"},
    {"model: [input: [1, [2], 3]]\n", "single value"},
    /* what spans several keys */
    {"train: {batch: 100}\nmodel: [dense: 10]\n",
     "job.yaml:1:|train.batch = 100|train.shards = 12|96 or 108"},
    {"model: [dense: 10]\ntrain:\n  batch: 12\n epochs: 1\n",
     "job.yaml:4: this line is indented otherwise than the lines above it"},
    {"model: [dense: 10]\ntrain:\n  batch: 12\n    epochs: 1\n",
     "job.yaml:4: this line goes on with the value above it: it is indented too far"},
    /* tabs */
    {"model: [dense: 10]\ntrain:\n\tbatch: 12\n",
     "job.yaml:3: a tab before the first word of this line"},
    {"model: [dense: 10]\ntrain:\n  batch: 12\n\tepochs: 1\n",
     "job.yaml:4: a tab before|only spaces"},
    {"model: [dense: 10]\ntrain:\n  batch: 12\n  \tepochs: 1\n",
     "job.yaml:4: a tab before|only spaces"},
    {"model:\n  -\tflatten\n", "job.yaml:2: a tab before|only spaces"},
    {"train:\n  batch: 12\n    \tepochs: 1\n", "job.yaml:3: a tab before|only spaces"},
    {"\tmodel: [dense: 10]\n", "job.yaml:1: a tab before|only spaces"},
    {"\xef\xbb\xbfrun:\n\tseed: 1\n", "job.yaml:2: a tab before|only spaces"},
    {"run: {seed: @1}\n", "job.yaml:1: a value that begins with this character needs quotes"},
    {"model: [dense: 10\nrun: {seed: 1}\n", "job.yaml:2: this line goes on with the value"},
    {"model: [linear: 10]\n", "model.layer = linear, did you mean dense?"},
    {"train: {batch: 7}\nmodel: [dense: 10]\n", "train.batch = 7|train.shards = 12: 12"},
    {"train: {shards: 7}\nmodel: [dense: 10]\n", "train.batch = 384|train.shards = 7"},
    {"data: {train: 96}\nmodel: [dense: 10]\n", "train.batch = 384|data.train = 96"},
    {"data: {source: csv}\nmodel: [dense: 10]\n", "data.file|csv"},
    {"data: {source: text}\nmodel: [dense: 1]\n", "data.file is missing|text"},
    {"data: {context: 0}\n", "data.context = 0|1..65536"},
    {"data: {source: npy, file: a, train_images: b}\nmodel: [dense: 1]\n",
     "data.file|without train_images"},
    {"data: {source: npy, test_images: a}\nmodel: [dense: 1]\n",
     "data.test_labels is missing|data.test_images"},
    {"data: {source: npy, test_labels: a}\nmodel: [dense: 1]\n",
     "data.test_images is missing|data.test_labels"},
    {"train: {local_steps: 2, batch: 12000000}\nmodel: [dense: 10]\n",
     "train.local_steps = 2|train.batch = 12000000|16777216 samples"},
    {"train: {local_steps: 0}\nmodel: [dense: 10]\n", "train.local_steps = 0|1..65536"},
    {"train: {local_steps: 2, block_momentum: 1}\nmodel: [dense: 10]\n",
     "block_momentum = 1|0..0.99999"},
    {"train: {local_steps: 2, block_rate: 0}\nmodel: [dense: 10]\n", "block_rate = 0|1e-06..1000"},
};

TEST(mistakes_are_named_in_one_line)
{
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct why why = {""};
        if (try(bad[i].text, strlen(bad[i].text), &why) == 0)
            fail_msg("accepted: %s", bad[i].text);
        expect_line(bad[i].text, why.line, bad[i].parts);
    }
}

TEST(bytes_that_are_not_text_are_refused)
{
    static const struct {
        const char *bytes;
        size_t size;
    } binary[] = {
        {"run: {name: a}\n\0model: [dense: 3]", 33},
        {"\0\0\0\0", 4},
        {"\xff\xfer\0u\0n\0", 8},
        {"\xfe\xff\0r\0u\0n", 8},
        {"run: {name: \xc3\x28}\n", 16},
        {"run: {name: \xed\xa0\x80}\n", 17},
        {"run: {name: \x07}\n", 15},
        {"\x1f\x8b\x08\x00", 4},
    };
    for (size_t i = 0; i < sizeof binary / sizeof binary[0]; i++) {
        struct why why = {""};
        assert_int_not_equal(try(binary[i].bytes, binary[i].size, &why), 0);
        expect_line("bytes", why.line, "job.yaml");
    }
}

TEST(long_lines_and_deep_nesting_end_quickly)
{
    static char text[PROTO_JOB_MAX];
    static const char fill[] = {'a', '[', '{', '-', '&', '"', ' ', '\n', '?', ':'};
    struct why why;
    for (size_t i = 0; i < sizeof fill; i++) {
        memset(text, fill[i], sizeof text);
        why.line[0] = '\0';
        assert_int_not_equal(try(text, sizeof text, &why), 0);
        expect_line("fill", why.line, "job.yaml");
        memcpy(text, "train: {loss: ", 14);
        assert_int_not_equal(try(text, sizeof text, &why), 0);
    }
}

TEST(a_layer_is_a_name_or_a_name_with_settings)
{
    OWNED(config_destroy)
    struct config *config = parse("model:\n"
                                  "  - input: [1, 28, 28]\n"
                                  "  - conv: {filters: 16, kernel: 5, pad: 2, bias: no}\n"
                                  "  - relu\n"
                                  "  - maxpool: 2\n"
                                  "  - avgpool\n"
                                  "  - dropout: {drop: 0.25}\n"
                                  "  - dense: {units: 10, init: zero}\n");
    const struct nn_layer_spec *layer = config->model.layer;
    assert_int_equal(config->model.count, 6);
    assert_int_equal(config->model.input.dims, 3);
    assert_int_equal(config->model.input.dim[2], 28);
    assert_int_equal(layer[0].kind, NN_CONV2D);
    assert_int_equal(layer[0].units, 16);
    assert_int_equal(layer[0].kernel, 5);
    assert_int_equal(layer[0].stride, 1);
    assert_int_equal(layer[0].pad, 2);
    assert_true(layer[0].no_bias);
    assert_int_equal(layer[0].line, 3);
    assert_int_equal(layer[2].kind, NN_MAXPOOL);
    assert_int_equal(layer[2].kernel, 2);
    assert_int_equal(layer[3].kind, NN_AVGPOOL);
    assert_int_equal(layer[3].kernel, 2);
    assert_true(layer[4].drop == 0.25f);
    assert_int_equal(layer[5].units, 10);
    assert_false(layer[5].no_bias);
    assert_int_equal(layer[5].init, NN_INIT_ZERO);
    assert_int_equal(layer[5].line, 8);
}

TEST(a_choice_brings_its_own_defaults)
{
    struct why why;
    OWNED(config_destroy)
    struct config *config = parse("train: {optimizer: {sgd: {rate: 0.2, momentum: 0.9}}}\n");
    assert_int_equal(config->train.optim.kind, OPTIM_SGD);
    assert_true(config->train.optim.rate == 0.2f);
    assert_true(config->train.optim.momentum == 0.9f);
    assert_int_equal(config_set(config, "train.optimizer=adam", &why), 0);
    assert_int_equal(config->train.optim.kind, OPTIM_ADAM);
    assert_true(config->train.optim.rate == 0.001f);
    assert_true(config->train.optim.momentum == 0);
    assert_true(config->train.optim.beta2 == 0.999f);
    assert_int_equal(config_set(config, "train.optimizer.adam.rate=0.5", &why), 0);
    assert_true(config->train.optim.rate == 0.5f);
    assert_int_not_equal(config_set(config, "train.optimizer.sgd.rate=0.1", &why), 0);
    expect_line("set", why.line, "no effect|train.optimizer = adam");
    assert_int_equal(config_set(config, "train.schedule=step", &why), 0);
    assert_true(config->train.optim.schedule_gamma == 0.1f);
}

TEST(windows_line_ends_and_a_byte_order_mark_do_no_harm)
{
    OWNED(config_destroy)
    struct config *config = parse("\xef\xbb\xbfrun: {name: x}\r\nmodel:\r\n  - dense: 10\r\n");
    assert_string_equal(config->run.name, "x");
    assert_int_equal(config->model.count, 1);
}

TEST(the_name_comes_from_the_file)
{
    static const char *const cases[][2] = {
        {"configs/digits.yaml", "digits"},
        {"digits.yml", "digits"},
        {"/x/a b.yaml", "a_b"},
        {"job", "job"},
        {".yaml", "_yaml"},
        {"dir/", "run"},
    };
    struct why why;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(config_destroy) struct config *config;
        assert_int_equal(config_parse(&config, cases[i][0], base, strlen(base), &why), 0);
        assert_string_equal(config->run.name, cases[i][1]);
    }
}

TEST(set_changes_one_key_or_nothing)
{
    static const char *const wrong[][2] = {
        {"", "section.key=value"},
        {"train.epochs", "section.key=value"},
        {"=3", "section.key=value"},
        {"train.epochs=", "train.epochs = \"\""},
        {"train.epochs=3 ", "train.epochs = 3 "},
        {"train.epoch=3", "did you mean train.epochs?"},
        {"epochs=3", "unknown key epochs|train.epochs?"},
        {"a.b.c.d=3", "unknown key a.b.c.d, expected one of the sections run, data"},
        {"nonsense=3", "unknown key nonsense, expected one of the sections run, data"},
        {"train=3", "unknown key train, expected train.KEY with KEY one of loss epochs"},
        {"data.augment.shift=3",
         "unknown key data.augment.shift, expected data.augment.shift.KEY|one of pixels flip"},
        {"train.optimizer.sgd=", "expected train.optimizer.sgd.KEY with KEY one of rate momentum"},
        {"train.optimizer.best=1", "train.optimizer has a value, expected sgd, adam"},
        {"data.augment.none=1", "data.augment has a value, expected none or shift"},
        {"data.seed.x=1",
         "unknown key data.seed.x: data.seed has a value, expected a whole number 0.."},
        {"model=dense", "model belongs in the job file"},
        {"tr\033.x=3", "unknown key tr\\x1b.x, expected"},
        {"model.layer=dense", "belongs in the job file"},
        {"model.conv.kernel=3", "belongs in the job file"},
        {"run.name=a/b", "run.name = a/b"},
        {"data.dir=\xff", "data.dir = \\xff"},
        {"mesh.seeds=nowhere", "HOST:PORT"},
        {"train.\033[1m=3", "\\x1b"},
    };
    OWNED(config_destroy) struct config *config = parse(base);
    char before[4096];
    struct why why;
    snprintf(before, sizeof before, "%s", config->text);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        why.line[0] = '\0';
        assert_int_not_equal(config_set(config, wrong[i][0], &why), 0);
        expect_line(wrong[i][0], why.line, wrong[i][1]);
        assert_string_equal(config->text, before);
    }
    assert_int_equal(config_set(config, "data.file=a=b", &why), 0);
    assert_string_equal(config->data.file, "a=b");
    assert_int_equal(config_set(config, "mesh.seeds=a:1", &why), 0);
    assert_int_equal(config_set(config, "mesh.seeds=[::2]:2", &why), 0);
    assert_int_equal(config->mesh.seed_count, 2);
    assert_int_equal(config_set(config, "mesh.seeds=[b:2, 'c:3', \"[::2]:4\"]", &why), 0);
    assert_int_equal(config->mesh.seed_count, 3);
    assert_int_equal(config_set(config, "data.ignore=id", &why), 0);
    assert_int_equal(config_set(config, "data.ignore=[a, 'b, c', \"d\"]", &why), 0);
    assert_string_equal(config->data.ignored, "a\nb, c\nd");
    assert_int_not_equal(config_set(config, "data.ignore=[x, {y: z}]", &why), 0);
    expect_line("list", why.line, "--set:1: |data.ignore: expected a single value");
    assert_string_equal(config->data.ignored, "a\nb, c\nd");
    assert_int_equal(config_set(config, "data.ignore=[]", &why), 0);
    assert_string_equal(config->data.ignored, "");
}

TEST(at_most_64_seeds_are_taken)
{
    OWNED(config_destroy) struct config *config = parse(base);
    struct why why;
    for (int i = 0; i < 64; i++)
        assert_int_equal(config_set(config, "mesh.seeds=a:1", &why), 0);
    assert_int_not_equal(config_set(config, "mesh.seeds=a:1", &why), 0);
    expect_line("seeds", why.line, "mesh.seeds|too many");
}

/* A value that the key takes and that differs from its default. */
static const char *
other_value(const struct config_key *key, char *out, size_t size)
{
    switch (key->kind) {
    case CONFIG_UINT:
        snprintf(out, size, "%.0f", key->max);
        return strcmp(out, key->fallback) == 0 ? "1" : out;
    case CONFIG_REAL:
        snprintf(out, size, "%.9g", key->max);
        return strcmp(out, key->fallback) == 0 ? "0.5" : out;
    case CONFIG_ENUM:
    case CONFIG_CHOICE:
    case CONFIG_WORD:
        return key->words[strcmp(key->words[0].name, key->fallback) == 0 && key->words[1].name]
            .name;
    case CONFIG_ENDPOINTS:
        return "host:1";
    default:
        return "it.s-other";
    }
}

static struct config *
parse_again(const struct config *config)
{
    struct why why;
    struct config *again;
    if (config_parse(&again, "other", config->text, config->text_size, &why))
        fail_msg("own text refused: %s\n%s", why.line, config->text);
    return again;
}

/* In any way of writing lists, and again from the canonical text. */
TEST(a_residual_is_a_list_that_nests)
{
    struct config *config = parse("model:\n"
                                  "  - residual: [layernorm, dense: 12, residual: [relu]]\n"
                                  "  - residual:\n"
                                  "    - residual:\n"
                                  "        - attention: {heads: 2}\n"
                                  "    - gelu: tanh\n"
                                  "  - dense: 4\n");
    static const enum nn_kind kinds[] = {
        NN_RESIDUAL,     NN_LAYERNORM,    NN_DENSE,        NN_RESIDUAL, NN_RELU,
        NN_RESIDUAL_END, NN_RESIDUAL_END, NN_RESIDUAL,     NN_RESIDUAL, NN_ATTENTION,
        NN_RESIDUAL_END, NN_GELU,         NN_RESIDUAL_END, NN_DENSE};
    OWNED(config_destroy) struct config *again = parse_again(config);
    assert_int_equal(config->model.count, 14);
    for (size_t i = 0; i < 14; i++) {
        assert_int_equal(config->model.layer[i].kind, kinds[i]);
        assert_int_equal(again->model.layer[i].kind, kinds[i]);
    }
    assert_int_equal(config->model.layer[9].line, 5);
    assert_int_equal(again->model.layer[9].units, 2);
    assert_true(again->model.layer[11].approximate);
    assert_string_equal(config->text, again->text);
    assert_true(config->job_hash == again->job_hash);
    config_destroy(&config);
}

/* Settings of a word that is not the default need the word first. */
static void
choose_for(struct config *config, const struct config_key *key)
{
    char assignment[128];
    struct why why;
    const char *dot = strrchr(key->section, '.');
    if (strcmp(key->name, "compress_warmup") == 0)
        assert_int_equal(config_set(config, "mesh.compress=int8", &why), 0);
    if (strcmp(key->name, "compress_span") == 0)
        assert_int_equal(config_set(config, "mesh.compress=topk", &why), 0);
    if (!dot)
        return;
    snprintf(assignment, sizeof assignment, "%.*s=%s", (int)(dot - key->section), key->section,
             dot + 1);
    assert_int_equal(config_set(config, assignment, &why), 0);
}

TEST(each_key_counts_for_the_job_or_not_and_travels_or_not)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        char assignment[128], value[64];
        struct why why;
        if (strncmp(key->section, "model", 5) == 0)
            continue;
        struct config *config = parse(base);
        choose_for(config, key);
        struct config *before = parse_again(config);
        snprintf(assignment, sizeof assignment, "%s.%s=%s", key->section, key->name,
                 other_value(key, value, sizeof value));
        if (config_set(config, assignment, &why))
            fail_msg("%s", why.line);
        OWNED(config_destroy) struct config *after = parse_again(config);
        bool only = key->kind != CONFIG_UINT && key->words && !key->words[1].name;
        bool gossips = strcmp(config->mesh.topology, "gossip") == 0; /* another result */
        if ((config->job_hash != before->job_hash) != (key->scope == CONFIG_JOB || gossips))
            fail_msg("%s: the job hash %s", assignment,
                     key->scope == CONFIG_JOB ? "is the same" : "differs");
        if ((config->exchange_hash != before->exchange_hash) != (key->scope == CONFIG_EXCHANGE))
            fail_msg("%s: the hash of the exchange %s", assignment,
                     key->scope == CONFIG_EXCHANGE ? "is the same" : "differs");
        if ((strcmp(config->text, before->text) != 0) != (key->scope != CONFIG_NODE && !only))
            fail_msg("%s: the text is wrong", assignment);
        assert_true(config->job_hash == after->job_hash);
        assert_string_equal(config->text, after->text);
        config_destroy(&config);
        config_destroy(&before);
    }
}

TEST(the_model_is_part_of_the_job)
{
    static const char *const models[] = {
        "model: [dense: 10]",
        "model: [dense: 11]",
        "model: [dense: {units: 10, bias: no}]",
        "model: [dense: {units: 10, init: he}]",
        "model: [input: 784, dense: 10]",
        "model: [flatten, dense: 10]",
        "model: [maxpool: 2, dense: 10]",
        "model: [avgpool: 2, dense: 10]",
        "model: [avgpool: {kernel: 2, pad: 1}, dense: 10]",
        "model: [dropout: 0.5, dense: 10]",
        "model: [residual: [dropout: 0.5], dense: 10]",
        "model: [residual: [dropout: 0.5, dense: 10]]",
        "model: [residual: [residual: [dropout: 0.5]], dense: 10]",
        "model: [dropout: 0.50001, dense: 10]",
    };
    uint64_t hash[sizeof models / sizeof models[0]];
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        OWNED(config_destroy)
        struct config *config = parse(models[i]), *again = parse_again(config);
        hash[i] = config_job_hash(config, 1, 0);
        assert_true(hash[i] == config_job_hash(again, 1, 0));
        assert_true(hash[i] != config_job_hash(again, 2, 0));
        assert_true(hash[i] != config_job_hash(again, 1, 1));
        assert_true(config_job_hash(again, 1, 2) != config_job_hash(again, 1, 1));
        for (size_t j = 0; j < i; j++)
            assert_true(hash[i] != hash[j]);
    }
}

/* The name of a file is handed on, but does not count. */
TEST(what_it_starts_from_counts_by_its_weights)
{
    OWNED(config_destroy)
    struct config *plain = parse("model: [input: 784, dense: 10]"),
                  *from = parse("model: [from: \"it's/m.safetensors\", input: 784, dense: 10]"),
                  *again = parse_again(from);
    struct why why;
    assert_string_equal(again->model.from, "it's/m.safetensors");
    assert_string_equal(again->text, from->text);
    assert_true(config_job_hash(plain, 1, 0) == config_job_hash(from, 1, 0));
    assert_int_equal(config_set(plain, "model.from=it's/m.safetensors", &why), 0);
    assert_string_equal(plain->text, from->text);
    assert_int_equal(config_set(plain, "model.from=", &why), 0);
    assert_string_equal(plain->model.from, "");
    assert_int_not_equal(config_set(plain, "model.input=3", &why), 0);
}

TEST(names_with_quotes_and_blanks_survive_the_journey)
{
    struct config *config = parse("data: {source: csv, file: \"it's a 'fïle' #1: {x}\"}\n");
    OWNED(config_destroy) struct config *again = parse_again(config);
    assert_string_equal(again->data.file, "it's a 'fïle' #1: {x}");
    config_destroy(&config);
}

TEST(own_settings_of_a_node_do_not_travel)
{
    OWNED(config_destroy)
    struct config *config = parse("data: {dir: /secret}\nmesh: {interface: eth7, group: g7, "
                                  "seeds: ['h7:7']}\nnode: {out: /o7}\nmodel: [dense: 10]\n");
    assert_null(strstr(config->text, "/secret"));
    assert_null(strstr(config->text, "eth7"));
    assert_null(strstr(config->text, "g7"));
    assert_null(strstr(config->text, "h7"));
    assert_null(strstr(config->text, "/o7"));
}

TEST(check_fills_in_threads_and_folder)
{
    OWNED(config_destroy) struct config *config = parse(base);
    struct why why;
    assert_int_equal(config_check(config, &why), 0);
    assert_true(config->threads >= 1);
    assert_string_equal(config->out, "runs/job");
}

/* Every key has a line there, and says the default: the file is as good as none. */
TEST(the_reference_names_every_key_with_its_default)
{
    struct why why;
    struct config *config;
    if (config_load(&config, "configs/reference.yaml", &why))
        fail_msg("%s", why.line);
    assert_int_equal(config_check(config, &why), 0);
    for (size_t i = 0; i < config_key_count; i++)
        if (!strchr(config_keys[i].section, '.') && strcmp(config_keys[i].name, "layer") != 0 &&
            config->line[i] == 0)
            fail_msg("%s.%s is missing", config_keys[i].section, config_keys[i].name);
    char *model = strstr(config->text, "model:\n");
    assert_non_null(model);
    OWNED(config_destroy) struct config *defaults;
    assert_int_equal(config_parse(&defaults, "reference", model, strlen(model), &why), 0);
    assert_string_equal(config->text, defaults->text);
    assert_int_equal(config->mesh.seed_count, 0);
    assert_int_equal(config_check(defaults, &why), 0);
    config->text = defaults->text = (free(config->text), free(defaults->text), NULL);
    memset(config->line, 0, sizeof config->line);
    memset(config->file, 0, sizeof config->file);
    memset(defaults->line, 0, sizeof defaults->line);
    memset(defaults->file, 0, sizeof defaults->file);
    for (size_t i = 0; i < config->model.count; i++)
        config->model.layer[i].line = defaults->model.layer[i].line = 0;
    assert_memory_equal(config, defaults, sizeof *config);
    config_destroy(&config);
}

/* And the settings of choices, which have no line of their own, stand there as `name:`. */
TEST(the_reference_explains_every_setting)
{
    static char text[PROTO_JOB_MAX];
    FILE *file = fopen("configs/reference.yaml", "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        char name[64];
        snprintf(name, sizeof name, "%s:", key->name);
        if (strchr(key->section, '.') && !strstr(text, name))
            fail_msg("%s.%s is missing", key->section, key->name);
        for (const struct config_word *word = key->words; word && word->name; word++)
            if (!strstr(text, word->name))
                fail_msg("%s.%s: %s is missing", key->section, key->name, word->name);
    }
}

TEST(the_jobs_that_come_along_are_good)
{
    static const char *const files[] = {"configs/digits.yaml",
                                        "configs/mnist.yaml",
                                        "configs/mnist-mlp.yaml",
                                        "configs/logistic.yaml",
                                        "configs/shakespeare-gpt.yaml",
                                        "configs/mnist-resnet.yaml",
                                        "configs/cifar-resnet.yaml",
                                        "configs/server-bsp.yaml",
                                        "configs/compress-int8.yaml",
                                        "configs/compress-topk.yaml",
                                        "configs/compress-powersgd.yaml",
                                        "configs/slow-network.yaml"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct why why;
        struct config *config;
        if (config_load(&config, files[i], &why) || config_check(config, &why))
            fail_msg("%s", why.line);
        OWNED(config_destroy) struct config *again = parse_again(config);
        assert_true(config->job_hash == again->job_hash);
        config_destroy(&config);
    }
}

static char dir[] = "/tmp/test_config_XXXXXX";

static void
expect_load(const char *path, const char *parts)
{
    struct why why = {""};
    struct config *config = NULL;
    assert_true(config_load(&config, path, &why) < 0);
    assert_null(config);
    expect_line(path, why.line, parts);
}

TEST(only_regular_files_are_read)
{
    char path[128];
    assert_non_null(mkdtemp(dir));
    expect_load(dir, "is a directory");
    expect_load("/dev/zero", "/dev/zero|not a regular file");
    expect_load("/dev/full", "not a regular file");
    expect_load("/dev/null", "not a regular file");
    snprintf(path, sizeof path, "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_load(path, "fifo|not a regular file");
    unlink(path);
    snprintf(path, sizeof path, "%s/loop", dir);
    assert_int_equal(symlink(path, path), 0);
    expect_load(path, "loop|symbolic links");
    unlink(path);
    snprintf(path, sizeof path, "%s/none\033[1m", dir);
    expect_load(path, "none\\x1b[1m|No such file");
    rmdir(dir);
}

TEST(large_files_are_refused_unread)
{
    char path[] = "/tmp/test_config_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)2 << 30), 0);
    expect_load(path, "64 KiB");
    assert_int_equal(ftruncate(fd, 0), 0);
    expect_load(path, "empty");
    close(fd);
    unlink(path);
}

TEST(a_name_that_is_too_long_is_refused)
{
    static char path[8192];
    memset(path, 'a', sizeof path - 1);
    expect_load(path, "too long");
}
