/* Written by make_optim.py with PyTorch 1.13.0a0. */
/* clang-format off */
enum { TORCH_COUNT = 8, TORCH_STEPS = 5 };

static const struct {
    const char *name;
    struct optim_spec spec;
    float params[TORCH_COUNT];
} torch_optim[] = {
    {"sgd", {.kind = OPTIM_SGD, .rate = 0.1f, .momentum = 0.0f, .nesterov = false, .weight_decay = 0.0f},
     {-1.03750002f, -0.537499964f, -0.3125f, -0.224999994f, 0.275000006f, 0.362500012f, 0.587499976f, 0.949999988f}},
    {"sgd, decay", {.kind = OPTIM_SGD, .rate = 0.1f, .momentum = 0.0f, .nesterov = false, .weight_decay = 0.05f},
     {-1.01484573f, -0.523521006f, -0.30309546f, -0.221531108f, 0.26979357f, 0.354771435f, 0.571783602f, 0.928337693f}},
    {"momentum", {.kind = OPTIM_SGD, .rate = 0.1f, .momentum = 0.9f, .nesterov = false, .weight_decay = 0.0f},
     {-1.20658755f, -0.299382508f, -0.327878743f, -0.292286247f, 0.614918768f, 0.113559999f, 0.62201494f, 0.966143787f}},
    {"momentum, decay", {.kind = OPTIM_SGD, .rate = 0.1f, .momentum = 0.9f, .nesterov = false, .weight_decay = 0.05f},
     {-1.14751995f, -0.264271647f, -0.302371979f, -0.283860087f, 0.599388242f, 0.0946140364f, 0.579799891f, 0.911715567f}},
    {"nesterov", {.kind = OPTIM_SGD, .rate = 0.1f, .momentum = 0.9f, .nesterov = true, .weight_decay = 0.0f},
     {-1.33592868f, -0.244444236f, -0.270090848f, -0.375557631f, 0.715926886f, 0.127204016f, 0.584813535f, 1.03202939f}},
    {"nesterov, decay", {.kind = OPTIM_SGD, .rate = 0.05f, .momentum = 0.5f, .nesterov = true, .weight_decay = 0.1f},
     {-0.975018919f, -0.513893843f, -0.311019123f, -0.202795222f, 0.258329809f, 0.330967546f, 0.569428504f, 0.899410605f}},
    {"adam", {.kind = OPTIM_ADAM, .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-08f, .weight_decay = 0.0f},
     {-0.906890273f, -0.586533546f, -0.379613668f, -0.135070711f, 0.168292135f, 0.343562812f, 0.635831118f, 0.873338938f}},
    {"adam, decay", {.kind = OPTIM_ADAM, .rate = 0.01f, .beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-08f, .weight_decay = 0.1f},
     {-0.891743064f, -0.585178733f, -0.375355244f, -0.135518402f, 0.166665286f, 0.344147325f, 0.622400999f, 0.869448245f}},
    {"adam, large epsilon", {.kind = OPTIM_ADAM, .rate = 0.1f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 0.5f, .weight_decay = 0.0f},
     {-0.998051047f, -0.45926562f, -0.391150206f, -0.172900081f, 0.336782902f, 0.239083543f, 0.656917632f, 0.860397458f}},
    {"adamw", {.kind = OPTIM_ADAMW, .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-08f, .weight_decay = 0.01f},
     {-0.906448305f, -0.58622992f, -0.379422814f, -0.13500993f, 0.168220297f, 0.343384415f, 0.635513186f, 0.872905135f}},
    {"adamw, decay", {.kind = OPTIM_ADAMW, .rate = 0.1f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 0.001f, .weight_decay = 0.3f},
     {-1.05592668f, -0.178850234f, -0.358381271f, -0.212709919f, 0.512228489f, 0.0347043611f, 0.628767848f, 0.745134354f}},
    {"rmsprop", {.kind = OPTIM_RMSPROP, .rate = 0.01f, .momentum = 0.0f, .beta2 = 0.99f, .epsilon = 1e-08f, .weight_decay = 0.0f},
     {-1.14781916f, -0.460878551f, -0.359924674f, -0.257112592f, 0.337265551f, 0.244702905f, 0.597139001f, 0.930449665f}},
    {"rmsprop, decay", {.kind = OPTIM_RMSPROP, .rate = 0.1f, .momentum = 0.0f, .beta2 = 0.8f, .epsilon = 0.001f, .weight_decay = 0.1f},
     {-1.23395479f, -0.218905941f, -0.276604831f, -0.427281976f, 0.582331002f, 0.115944549f, 0.40006268f, 0.957658768f}},
    {"rmsprop, momentum", {.kind = OPTIM_RMSPROP, .rate = 0.02f, .momentum = 0.9f, .beta2 = 0.99f, .epsilon = 1e-08f, .weight_decay = 0.05f},
     {-1.31269002f, 0.610021949f, -0.621562898f, -0.364614129f, 1.49889934f, -1.00122416f, 0.763541102f, 0.790154517f}},
};

/* rate 0.5, 12 steps */
static const double torch_cosine[] = {0.5, 0.49233331091504035, 0.46985571585149871, 0.43409902576697312, 0.38749999999999996, 0.33323428514806713, 0.27499999999999997, 0.21676571485193286, 0.16250000000000006, 0.11590097423302684, 0.080144284148501305, 0.057666689084959658};
static const double torch_step[] = {0.5, 0.5, 0.5, 0.5, 0.5, 0.125, 0.125, 0.125, 0.125, 0.125, 0.03125, 0.03125};
