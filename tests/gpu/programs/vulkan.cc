// Computes by Vulkan on each device: "GPU-... right", with the UUID that CUDA and NVML give it too.
#include <vulkan/vulkan.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {

// Of vulkan.comp, by glslangValidator.
const uint32_t shader_words[] = {
#include "vulkan.comp.inc"
};
constexpr uint32_t count = 1 << 16, group = 64;

struct Failed {
    const char* doing;
    VkResult result;
};

void must(VkResult result, const char* doing) {
    if (result != VK_SUCCESS) throw Failed{doing, result};
}

template <class Info>
Info info(VkStructureType type) {
    Info out{};
    out.sType = type;
    return out;
}

std::string uuid_of(VkPhysicalDevice device) {
    auto identity = info<VkPhysicalDeviceIDProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
    auto properties = info<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
    properties.pNext = &identity;
    vkGetPhysicalDeviceProperties2(device, &properties);
    std::string out = "GPU-";
    for (unsigned i = 0; i < VK_UUID_SIZE; ++i) {
        char text[4];
        std::snprintf(text, sizeof text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      identity.deviceUUID[i]);
        out += text;
    }
    return out;
}

uint32_t computing_family(VkPhysicalDevice device) {
    uint32_t families = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(device, &families, nullptr);
    std::vector<VkQueueFamilyProperties> all(families);
    vkGetPhysicalDeviceQueueFamilyProperties(device, &families, all.data());
    for (uint32_t i = 0; i < families; ++i)
        if (all[i].queueFlags & VK_QUEUE_COMPUTE_BIT) return i;
    throw Failed{"looking for a queue that computes", VK_ERROR_FEATURE_NOT_PRESENT};
}

uint32_t memory_type(VkPhysicalDevice device, uint32_t allowed) {
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(device, &memory);
    const VkMemoryPropertyFlags shared = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    for (uint32_t i = 0; i < memory.memoryTypeCount; ++i)
        if ((allowed >> i & 1) && (memory.memoryTypes[i].propertyFlags & shared) == shared) return i;
    throw Failed{"looking for memory that both can use", VK_ERROR_FEATURE_NOT_PRESENT};
}

/// A device with a buffer that the processor can read. All of it ends with the process.
struct Work {
    VkPhysicalDevice physical;
    uint32_t family = computing_family(physical);
    VkDevice device = nullptr;
    VkBuffer buffer = nullptr;
    VkDeviceMemory memory = nullptr;
    VkDescriptorSetLayout set_layout = nullptr;
    VkDescriptorSet set = nullptr;
    VkPipelineLayout layout = nullptr;
    VkPipeline pipeline = nullptr;

    void make_device();
    void make_buffer();
    void make_set();
    void make_pipeline();
    void run() const;
    bool right() const;
};

void Work::make_device() {
    const float priority = 1;
    auto queue = info<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
    queue.queueFamilyIndex = family;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    auto about = info<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
    about.queueCreateInfoCount = 1;
    about.pQueueCreateInfos = &queue;
    must(vkCreateDevice(physical, &about, nullptr, &device), "making a device");
}

void Work::make_buffer() {
    auto about = info<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
    about.size = count * sizeof(uint32_t);
    about.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
    must(vkCreateBuffer(device, &about, nullptr, &buffer), "making a buffer");
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device, buffer, &needs);
    auto allocation = info<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
    allocation.allocationSize = needs.size;
    allocation.memoryTypeIndex = memory_type(physical, needs.memoryTypeBits);
    must(vkAllocateMemory(device, &allocation, nullptr, &memory), "allocating");
    must(vkBindBufferMemory(device, buffer, memory, 0), "binding memory");
}

void Work::make_set() {
    VkDescriptorSetLayoutBinding binding{0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    auto layout_info = info<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
    layout_info.bindingCount = 1;
    layout_info.pBindings = &binding;
    must(vkCreateDescriptorSetLayout(device, &layout_info, nullptr, &set_layout), "making a layout of descriptors");
    VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
    auto pool_info = info<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
    pool_info.maxSets = 1;
    pool_info.poolSizeCount = 1;
    pool_info.pPoolSizes = &size;
    VkDescriptorPool pool = nullptr;
    must(vkCreateDescriptorPool(device, &pool_info, nullptr, &pool), "making a pool of descriptors");
    auto set_info = info<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
    set_info.descriptorPool = pool;
    set_info.descriptorSetCount = 1;
    set_info.pSetLayouts = &set_layout;
    must(vkAllocateDescriptorSets(device, &set_info, &set), "making descriptors");
    VkDescriptorBufferInfo whole{buffer, 0, VK_WHOLE_SIZE};
    auto write = info<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    write.dstSet = set;
    write.descriptorCount = 1;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = &whole;
    vkUpdateDescriptorSets(device, 1, &write, 0, nullptr);
}

void Work::make_pipeline() {
    auto shader_info = info<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    shader_info.codeSize = sizeof shader_words;
    shader_info.pCode = shader_words;
    VkShaderModule shader = nullptr;
    must(vkCreateShaderModule(device, &shader_info, nullptr, &shader), "loading a shader");
    auto layout_info = info<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
    layout_info.setLayoutCount = 1;
    layout_info.pSetLayouts = &set_layout;
    must(vkCreatePipelineLayout(device, &layout_info, nullptr, &layout), "making a layout");
    auto about = info<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
    about.layout = layout;
    about.stage = info<VkPipelineShaderStageCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
    about.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    about.stage.module = shader;
    about.stage.pName = "main";
    must(vkCreateComputePipelines(device, nullptr, 1, &about, nullptr, &pipeline), "compiling a shader");
}

void Work::run() const {
    auto pool_info = info<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    pool_info.queueFamilyIndex = family;
    VkCommandPool pool = nullptr;
    must(vkCreateCommandPool(device, &pool_info, nullptr, &pool), "making a pool of commands");
    auto about = info<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    about.commandPool = pool;
    about.commandBufferCount = 1;
    VkCommandBuffer commands = nullptr;
    must(vkAllocateCommandBuffers(device, &about, &commands), "making commands");
    auto begin = info<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    must(vkBeginCommandBuffer(commands, &begin), "writing commands");
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    vkCmdDispatch(commands, count / group, 1, 1);
    must(vkEndCommandBuffer(commands), "ending commands");
    VkQueue queue = nullptr;
    vkGetDeviceQueue(device, family, 0, &queue);
    auto submit = info<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands;
    must(vkQueueSubmit(queue, 1, &submit, nullptr), "submitting");
    must(vkQueueWaitIdle(queue), "waiting for the device");
}

bool Work::right() const {
    void* mapped = nullptr;
    must(vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &mapped), "mapping memory");
    const auto* numbers = static_cast<const uint32_t*>(mapped);
    for (uint32_t i = 0; i < count; ++i)
        if (numbers[i] != 2 * i) return false;
    return true;
}

bool computes(VkPhysicalDevice physical) {
    Work work{physical};
    work.make_device();
    work.make_buffer();
    work.make_set();
    work.make_pipeline();
    work.run();
    return work.right();
}

std::vector<VkPhysicalDevice> devices() {
    auto application = info<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
    application.apiVersion = VK_API_VERSION_1_1;
    auto about = info<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
    about.pApplicationInfo = &application;
    VkInstance instance = nullptr;
    must(vkCreateInstance(&about, nullptr, &instance), "making an instance");
    uint32_t number = 0;
    must(vkEnumeratePhysicalDevices(instance, &number, nullptr), "counting the devices");
    std::vector<VkPhysicalDevice> out(number);
    must(vkEnumeratePhysicalDevices(instance, &number, out.data()), "listing the devices");
    return out;
}

}  // namespace

int main() {
    try {
        for (VkPhysicalDevice device : devices())
            std::printf("%s %s\n", uuid_of(device).c_str(), computes(device) ? "right" : "WRONG");
    } catch (const Failed& failed) {
        std::printf("%s: Vulkan error %d\n", failed.doing, failed.result);
        return 1;
    }
    return 0;
}
