// Draws by OpenGL ES without a display, on each GPU that EGL knows: "NVIDIA H100 80GB HBM3/PCIe/SSE2: right".
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GLES3/gl3.h>

#include <cstdio>

namespace {

constexpr int side = 64;

constexpr const char* whole_surface = R"(#version 300 es
void main() {
    vec2 corner = vec2(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0);
    gl_Position = vec4(corner, 0.0, 1.0);
})";
constexpr const char* by_place = R"(#version 300 es
precision highp float;
out vec4 color;
void main() { color = vec4(floor(gl_FragCoord.xy) / 255.0, 1.0, 1.0); })";

bool compiled(GLuint program, GLenum kind, const char* text) {
    GLuint shader = glCreateShader(kind);
    glShaderSource(shader, 1, &text, nullptr);
    glCompileShader(shader);
    GLint good = 0;
    glGetShaderiv(shader, GL_COMPILE_STATUS, &good);
    char log[1024] = "";
    if (!good) glGetShaderInfoLog(shader, sizeof log, nullptr, log), std::printf("compiling a shader: %s\n", log);
    glAttachShader(program, shader);
    return good;
}

/// Each pixel has its column as red and its row as green.
bool draws() {
    GLuint program = glCreateProgram();
    if (!compiled(program, GL_VERTEX_SHADER, whole_surface) || !compiled(program, GL_FRAGMENT_SHADER, by_place))
        return false;
    glLinkProgram(program);
    glUseProgram(program);
    glViewport(0, 0, side, side);
    glDrawArrays(GL_TRIANGLES, 0, 3);
    unsigned char pixels[side][side][4] = {};
    glReadPixels(0, 0, side, side, GL_RGBA, GL_UNSIGNED_BYTE, pixels);
    for (int row = 0; row < side; ++row)
        for (int column = 0; column < side; ++column) {
            const unsigned char* pixel = pixels[row][column];
            if (pixel[0] != column || pixel[1] != row || pixel[2] != 255) return false;
        }
    return glGetError() == GL_NO_ERROR;
}

/// Whether there is something to draw on; says what failed.
bool has_surface(EGLDisplay display) {
    EGLint count = 0;
    EGLConfig config = nullptr;
    const EGLint wanted[] = {EGL_SURFACE_TYPE,
                             EGL_PBUFFER_BIT,
                             EGL_RENDERABLE_TYPE,
                             EGL_OPENGL_ES3_BIT,
                             EGL_RED_SIZE,
                             8,
                             EGL_GREEN_SIZE,
                             8,
                             EGL_BLUE_SIZE,
                             8,
                             EGL_NONE};
    const EGLint size[] = {EGL_WIDTH, side, EGL_HEIGHT, side, EGL_NONE};
    const EGLint version[] = {EGL_CONTEXT_CLIENT_VERSION, 3, EGL_NONE};
    bool good = eglInitialize(display, nullptr, nullptr) && eglBindAPI(EGL_OPENGL_ES_API) &&
                eglChooseConfig(display, wanted, &config, 1, &count) && count == 1;
    if (good) {
        EGLContext context = eglCreateContext(display, config, EGL_NO_CONTEXT, version);
        EGLSurface surface = eglCreatePbufferSurface(display, config, size);
        good = eglMakeCurrent(display, surface, surface, context);
    }
    if (!good) std::printf("making a surface: EGL error %#x\n", eglGetError());
    return good;
}

template <class Function>
Function extension(const char* name) {
    return reinterpret_cast<Function>(eglGetProcAddress(name));
}

}  // namespace

int main() {
    auto list = extension<PFNEGLQUERYDEVICESEXTPROC>("eglQueryDevicesEXT");
    auto display_of = extension<PFNEGLGETPLATFORMDISPLAYEXTPROC>("eglGetPlatformDisplayEXT");
    EGLDeviceEXT devices[16];
    EGLint count = 0;
    if (!list || !display_of || !list(16, devices, &count)) {
        std::printf("listing devices: EGL error %#x\n", eglGetError());
        return 1;
    }
    for (int i = 0; i < count; ++i)
        if (EGLDisplay display = display_of(EGL_PLATFORM_DEVICE_EXT, devices[i], nullptr); has_surface(display)) {
            bool right = draws();
            std::printf("%s: %s\n", reinterpret_cast<const char*>(glGetString(GL_RENDERER)), right ? "right" : "WRONG");
        }
    return 0;
}
