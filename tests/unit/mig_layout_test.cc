// Where MIG devices go, and in which steps: against rules that are written here once more, and random layouts.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/mig/layout/arrange.hh"
#include "runtime/mig/layout/models.hh"
#include "runtime/mig/layout/steps.hh"
#include "tests/catch.hh"
#include "tests/unit/mig_rules.hh"

using namespace berth;
using namespace berth::mig;
using namespace berth::mig::test;

namespace {

std::string problem(const Model& model, const std::string& text) {
    try {
        arrange(model, plan::parse_mig(text));
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

}  // namespace

TEST_CASE("MIG: a request of each known GPU fits or is refused with the reason", "[mig]") {
    Model h100 = *model_of("NVIDIA H100 80GB HBM3");
    Layout layout = arrange(h100, plan::parse_mig("1g.10gb:4,3g.40gb"));
    REQUIRE(layout.size() == 5);
    // The three slices have to be behind: before them is room for four small ones, behind for three.
    CHECK(layout[0] == Instance{9, {4, 4}, {{2, {0, 3}}}});
    CHECK(problem(h100, "1g.10gb:3,3g.40gb").empty());
    CHECK(problem(h100, "1g.10gb:7").empty());
    CHECK(problem(h100, "4g.40gb,3g.40gb").empty());
    CHECK(problem(h100, "2g.20gb:3,1g.20gb").empty());
    CHECK(problem(h100, "7g.80gb,1g.10gb") ==
          "7g.80gb,1g.10gb does not fit on an H100-80GB; ask for fewer or smaller MIG devices");
    CHECK(problem(h100, "3g.40gb:2,1g.10gb") ==
          "3g.40gb:2,1g.10gb does not fit on an H100-80GB; ask for fewer or smaller MIG devices");
    CHECK(problem(h100, "4g.40gb:2") == "an H100-80GB can have 1 MIG devices 4g.40gb, not 2");
    CHECK(problem(h100, "1g.5gb") ==
          "an H100-80GB has no MIG profile 1g.5gb; it has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, "
          "7g.80gb");
    CHECK(problem(*model_of("NVIDIA A100-SXM4-40GB"), "1g.5gb:7").empty());
    CHECK(problem(*model_of("NVIDIA H200"), "1g.18gb:5,1g.35gb").empty());
    CHECK(problem(*model_of("NVIDIA B200"), "2g.45gb:3,1g.23gb+me").empty());
    // Each alone would fit, but there is one engine for optical flow.
    CHECK_FALSE(problem(*model_of("NVIDIA A30"), "1g.6gb+me,2g.12gb+me").empty());
    CHECK(problem(*model_of("NVIDIA A30"), "1g.6gb+me,1g.6gb,2g.12gb").empty());
}

TEST_CASE("MIG: the model of a GPU by NVML's name", "[mig]") {
    auto name = [](const char* gpu) { return model_of(gpu) ? model_of(gpu)->name : "-"; };
    CHECK(name("NVIDIA A100-SXM4-40GB") == "A100-40GB");
    CHECK(name("NVIDIA A100 80GB PCIe") == "A100-80GB");
    CHECK(name("NVIDIA A30") == "A30");
    CHECK(name("NVIDIA H100 PCIe") == "H100-80GB");
    CHECK(name("NVIDIA H100 NVL") == "H100-94GB");
    CHECK(name("NVIDIA H200") == "H200");
    CHECK(name("NVIDIA H200 NVL") == "H200");
    CHECK(name("NVIDIA GH200 480GB") == "H100-96GB");
    CHECK(name("NVIDIA B200") == "B200");
    CHECK(name("B200") == "B200");
    // Others of these names may be divided otherwise.
    CHECK(name("NVIDIA GB200") == "-");
    CHECK(name("NVIDIA A3000") == "-");
    CHECK(name("Tesla V100-SXM2-32GB") == "-");
}

TEST_CASE("MIG: places of one profile do not overlap more than it allows, in every model", "[mig]") {
    for (const Model& model : known_models()) {
        INFO(model.name);
        Rules rules(model);
        std::set<unsigned> ids;
        for (const Profile& profile : model.profiles) {
            INFO(profile.name);
            CHECK(ids.insert(profile.id).second);
            CHECK_NOTHROW(plan::parse_mig(profile.name));
            CHECK_NOTHROW(arrange(model, {{profile.name, profile.most}}));
            CHECK_FALSE(rules.possible(std::vector<const Profile*>(profile.most + 1, &profile)));
        }
    }
}

/// What the driver of such a GPU tells: tests/fixtures/mig.
Model told_of(const std::string& name) {
    std::ifstream file("tests/fixtures/mig/" + name + ".scene");
    REQUIRE(file);
    Model out{name, {}};
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string kind, starts;
        Profile one;
        unsigned number = 0, size = 0;
        words >> kind;
        if (kind != "profile") continue;
        words >> number >> one.id >> one.name >> one.slices >> one.most >> one.engines.decoders >> one.engines.jpeg >>
            one.engines.optical_flow >> size >> starts;
        for (const std::string& start : split(starts, ','))
            one.placements.push_back({static_cast<unsigned>(std::stoul(start)), size});
        out.profiles.push_back(one);
    }
    return out;
}

TEST_CASE("MIG: the table has what drivers tell of each GPU", "[mig]") {
    size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator("tests/fixtures/mig"))
        files += entry.path().extension() == ".scene";
    CHECK(files == known_models().size());
    for (const Model& model : known_models()) {
        INFO(model.name);
        CHECK(model.profiles == told_of(model.name).profiles);
    }
}

TEST_CASE("MIG: random requests find a layout exactly when there is one", "[mig]") {
    Random random(21);
    int found = 0;
    for (int i = 0; i < random_layouts; ++i) {
        const Model& model = known_models()[below(random, known_models().size())];
        Rules rules(model);
        std::map<std::string, unsigned> counts;
        for (unsigned left = 1 + below(random, 5); left > 0; --left)
            ++counts[model.profiles[below(random, model.profiles.size())].name];
        plan::MigRequest request;
        std::vector<const Profile*> wanted;
        for (const auto& [name, count] : counts) {
            request.push_back({name, count});
            wanted.insert(wanted.end(), count, model.named(name));
        }
        INFO(model.name << ' ' << plan::mig_text(request));
        bool possible = rules.possible(wanted);
        found += possible;
        if (!possible) {
            REQUIRE_THROWS_AS(arrange(model, request), Error);
            continue;
        }
        REQUIRE(request_of(arrange(model, request), model) == request);
    }
    CHECK(found > random_layouts / 10);
    CHECK(found < random_layouts * 9 / 10);
}

TEST_CASE("MIG: ten thousand random layouts become what is asked for, and what they were, in legal steps", "[mig]") {
    Random random(7);
    for (int i = 0; i < random_layouts; ++i) {
        const Model& model = known_models()[below(random, known_models().size())];
        Rules rules(model);
        Layout first = rules.any_layout(random);
        Layout seen = rules.any_layout(random);
        if (seen.empty()) continue;
        Layout wanted = arrange(model, request_of(seen, model));
        INFO(model.name << ' ' << plan::mig_text(request_of(seen, model)));
        Layout now = first;
        std::vector<Step> steps = steps_between(first, wanted);
        size_t stop = below(random, steps.size() + 1);
        Layout stopped = first;
        for (size_t step = 0; step < steps.size(); ++step) {
            if (step == stop) stopped = now;
            rules.apply(now, steps[step]);
        }
        if (stop == steps.size()) stopped = now;
        REQUIRE(same_layout(now, wanted));
        REQUIRE(steps_between(now, wanted).empty());
        // Back from wherever it was stopped.
        for (const Step& step : steps_between(stopped, first)) rules.apply(stopped, step);
        REQUIRE(same_layout(stopped, first));
    }
}

TEST_CASE("MIG: steps between two layouts leave what both have, and are told in words", "[mig]") {
    Model model = *model_of("H100-80GB");
    Layout first{{19, {0, 1}, {{0, {0, 1}}}}, {14, {2, 2}, {{0, {0, 1}}, {0, {1, 1}}}}};
    Layout wanted{{19, {0, 1}, {{0, {0, 1}}}}, {9, {4, 4}, {{2, {0, 3}}}}};
    std::vector<std::string> texts;
    for (const Step& step : steps_between(first, wanted)) texts.push_back(text_of(step, model));
    CHECK(texts == std::vector<std::string>{
                       "destroy compute instance of 2g.20gb at 2:2", "destroy compute instance of 2g.20gb at 2:2",
                       "destroy 2g.20gb at 2:2", "create 3g.40gb at 4:4", "create compute instance of 3g.40gb at 4:4"});
    // Parts are no others when they are told in another order.
    Layout turned = first;
    std::swap(turned[1].computes[0], turned[1].computes[1]);
    CHECK(same_layout(first, turned));
    CHECK(steps_between(first, turned).empty());
    CHECK_FALSE(same_layout(first, wanted));
    CHECK(text_of({Step::Kind::create_instance, {77, {1, 1}, {}}, {}}, model) == "create profile 77 at 1:1");
}
