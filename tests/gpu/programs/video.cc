// Decodes a picture of H.264 on each GPU by its video engine (NVDEC): "NVIDIA H100 80GB HBM3: right". CUDA's and the
// decoder's libraries are the driver's, opened by their names.
#include <ffnvcodec/dynlink_loader.h>

#include <cstdio>
#include <vector>

namespace {

/// 128 x 64 pixels of red: `ffmpeg -f lavfi -i color=c=red:s=128x64 -frames:v 1 -c:v libx264 -profile:v baseline
/// -pix_fmt yuv420p -bsf:v filter_units=remove_types=6 red.h264`, which makes them 81, 90, 240.
constexpr unsigned char red[] = {0x00, 0x00, 0x00, 0x01, 0x67, 0x42, 0xc0, 0x0a, 0xd9, 0x02, 0x09, 0xb0, 0x11, 0x00,
                                 0x00, 0x03, 0x00, 0x01, 0x00, 0x00, 0x03, 0x00, 0x32, 0x0f, 0x12, 0x26, 0x48, 0x00,
                                 0x00, 0x00, 0x01, 0x68, 0xcb, 0x83, 0xcb, 0x20, 0x00, 0x00, 0x01, 0x65, 0x88, 0x84,
                                 0x0a, 0xf1, 0x18, 0xa0, 0x00, 0x24, 0x03, 0x1c, 0x00, 0x04, 0x3a, 0xe3, 0x80, 0x00,
                                 0x97, 0xc4, 0x9c, 0x9c, 0x9c, 0x9c, 0x9c, 0x9c, 0x9d, 0x75, 0xd7, 0x5d, 0x75, 0xd7,
                                 0x5d, 0x75, 0xd7, 0x5d, 0x75, 0xd7, 0x5d, 0x75, 0xd7, 0x5d, 0x75, 0xd7, 0x5e};
constexpr unsigned width = 128, height = 64;
constexpr unsigned char luma = 81, blue = 90, red_difference = 240;

CudaFunctions* cuda = nullptr;
CuvidFunctions* cuvid = nullptr;

struct Failed {
    const char* doing;
    CUresult code;
};

void must(CUresult code, const char* doing) {
    if (code != CUDA_SUCCESS) throw Failed{doing, code};
}

struct Decoding {
    CUvideodecoder decoder = nullptr;
    unsigned right = 0, wrong = 0;  ///< pictures
};

/// The parser's calls return 0 where they failed.
int begin(void* user, CUVIDEOFORMAT* format) {
    CUVIDDECODECREATEINFO about{};
    about.CodecType = format->codec;
    about.ChromaFormat = format->chroma_format;
    about.OutputFormat = cudaVideoSurfaceFormat_NV12;
    about.DeinterlaceMode = cudaVideoDeinterlaceMode_Weave;
    about.ulWidth = format->coded_width;
    about.ulHeight = format->coded_height;
    about.ulTargetWidth = width;
    about.ulTargetHeight = height;
    about.ulNumDecodeSurfaces = format->min_num_decode_surfaces;
    about.ulNumOutputSurfaces = 1;
    CUresult code = cuvid->cuvidCreateDecoder(&static_cast<Decoding*>(user)->decoder, &about);
    if (code != CUDA_SUCCESS) std::printf("making a decoder: CUDA error %d\n", code);
    return code == CUDA_SUCCESS ? format->min_num_decode_surfaces : 0;
}

int decode(void* user, CUVIDPICPARAMS* picture) {
    return cuvid->cuvidDecodePicture(static_cast<Decoding*>(user)->decoder, picture) == CUDA_SUCCESS;
}

/// Brightness of each pixel, then the two differences of each four pixels in turns.
bool is_red(const std::vector<unsigned char>& picture) {
    for (size_t i = 0; i < picture.size(); ++i) {
        unsigned char expected = i < width * height ? luma : i % 2 ? red_difference : blue;
        if (picture[i] != expected) return false;
    }
    return true;
}

int look(void* user, CUVIDPARSERDISPINFO* shown) {
    auto* decoding = static_cast<Decoding*>(user);
    CUVIDPROCPARAMS how{};
    how.progressive_frame = 1;
    CUdeviceptr frame = 0;
    unsigned pitch = 0;
    if (cuvid->cuvidMapVideoFrame(decoding->decoder, shown->picture_index, &frame, &pitch, &how) != CUDA_SUCCESS)
        return 0;
    std::vector<unsigned char> picture(width * height * 3 / 2);
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = frame;
    copy.srcPitch = pitch;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = picture.data();
    copy.dstPitch = copy.WidthInBytes = width;
    copy.Height = height * 3 / 2;
    bool copied = cuda->cuMemcpy2D(&copy) == CUDA_SUCCESS;
    cuvid->cuvidUnmapVideoFrame(decoding->decoder, frame);
    ++(copied && is_red(picture) ? decoding->right : decoding->wrong);
    return copied;
}

bool decodes(CUdevice device) {
    CUcontext context = nullptr;
    must(cuda->cuCtxCreate(&context, 0, device), "making a context");
    Decoding decoding;
    CUVIDPARSERPARAMS about{};
    about.CodecType = cudaVideoCodec_H264;
    about.ulMaxNumDecodeSurfaces = 1;
    about.pUserData = &decoding;
    about.pfnSequenceCallback = begin;
    about.pfnDecodePicture = decode;
    about.pfnDisplayPicture = look;
    CUvideoparser parser = nullptr;
    must(cuvid->cuvidCreateVideoParser(&parser, &about), "making a parser");
    CUVIDSOURCEDATAPACKET data{};
    data.payload = red;
    data.payload_size = sizeof red;
    data.flags = CUVID_PKT_ENDOFSTREAM;
    must(cuvid->cuvidParseVideoData(parser, &data), "decoding");
    return decoding.right == 1 && decoding.wrong == 0;
}

}  // namespace

int main() {
    if (cuda_load_functions(&cuda, nullptr) != 0 || cuvid_load_functions(&cuvid, nullptr) != 0) {
        std::puts("libcuda.so.1 or libnvcuvid.so.1 cannot be loaded");
        return 1;
    }
    try {
        must(cuda->cuInit(0), "starting CUDA");
        int count = 0;
        must(cuda->cuDeviceGetCount(&count), "counting the devices");
        for (CUdevice device = 0; device < count; ++device) {
            char name[256] = "";
            must(cuda->cuDeviceGetName(name, sizeof name, device), "asking for a name");
            std::printf("%s: %s\n", name, decodes(device) ? "right" : "WRONG");
        }
    } catch (const Failed& failed) {
        std::printf("%s: CUDA error %d\n", failed.doing, failed.code);
        return 1;
    }
    return 0;
}
