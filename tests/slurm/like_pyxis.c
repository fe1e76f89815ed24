/* A plugin that stands in for Pyxis' beside ours: it has some of its options, is called spank_pyxis.so, and acts in the
 * same places on the same variables. What it runs is no container: each task says "like pyxis: IMAGE". */
#include <stdlib.h>
#include <string.h>

#include <slurm/spank.h>

SPANK_PLUGIN(pyxis, 1)

static char image[256];

static int take_image(int index, const char *value, int remote)
{
	strncpy(image, value, sizeof(image) - 1);
	return 0;
}

static int take_name(int index, const char *value, int remote) { return 0; }

static struct spank_option options[] = {
	{ "container-image", "IMAGE", "[pyxis] the image", 1, 0, take_image },
	{ "container-name", "NAME", "[pyxis] the name", 1, 0, take_name },
	{ "container-writable", NULL, "[pyxis] writable", 0, 0, take_name },
};

int slurm_spank_init(spank_t spank, int count, char **words)
{
	if (spank_context() != S_CTX_LOCAL && spank_context() != S_CTX_ALLOCATOR && spank_context() != S_CTX_REMOTE)
		return 0;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); ++i)
		if (spank_option_register(spank, &options[i]) != ESPANK_SUCCESS)
			return -1;
	return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int count, char **words)
{
	if (spank_context() == S_CTX_REMOTE && image[0] == '\0')
		spank_getenv(spank, "PYXIS_CONTAINER_IMAGE", image, sizeof(image));
	return 0;
}

int slurm_spank_task_init(spank_t spank, int count, char **words)
{
	if (image[0] != '\0')
		slurm_spank_log("like pyxis: %s", image);
	return 0;
}
