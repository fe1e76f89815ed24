// How far nodes are, by their own word, and what the tracker does about slow and lost ones.
#include "tests/catch.hh"
#include "tests/unit/pull_share_tracker.hh"

using namespace berth;
using namespace berth::pull::nodes;

using Nodes = std::vector<unsigned>;

TEST_CASE("tracker: a slow node loses its children, and one that only waits for it does not", "[share]") {
    Scene scene(12);
    scene.all_come(std::vector<std::string>(12, "0"));
    auto first_source = [&](unsigned node, unsigned stripe) {
        std::string sources = scene.role(node, 0, stripe);
        return sources.substr(0, sources.find(' '));
    };
    // A node with children, and one of these.
    unsigned slow = 0, child = 0;
    for (unsigned node = 1; node <= 12 && slow == 0; ++node)
        for (unsigned other = 1; other <= 12; ++other)
            if (first_source(other, 0) == cat("n", node) && scene.role(node, 0) != "own") slow = node, child = other;
    REQUIRE(slow != 0);
    for (uint64_t second = 1; second <= 4; ++second) {
        scene.pass(1000);
        for (unsigned node = 1; node <= 12; ++node) {
            bool is_held_up = node == slow || node == child;
            scene.say(node, Progress{0, second * (is_held_up ? 10 : 100) * mega,
                                     node == slow ? second * 200 * mega : 0});
        }
        // A report alone does not make it slow. (The rate is known with the second one.)
        if (second == 2) CHECK(first_source(child, 0) == cat("n", slow));
    }
    for (unsigned node = 1; node <= 12; ++node)
        for (unsigned stripe : {0, 1}) CHECK(first_source(node, stripe) != cat("n", slow));
    CHECK(scene.count<NewRole>(child) == 1);
    // It gets them back when it is as fast as the others.
    for (uint64_t second = 5; second <= 8; ++second) {
        scene.pass(1000);
        for (unsigned node = 1; node <= 12; ++node)
            scene.say(node, Progress{0, second * 100 * mega, node == slow ? second * 200 * mega : 0});
    }
    CHECK(first_source(child, 0) == cat("n", slow));
    CHECK(scene.count<NewRole>(child) == 2);
}

TEST_CASE("tracker: the longer it all takes, the longer is a node slow before it loses its children", "[share]") {
    Scene scene(12);
    scene.all_come(std::vector<std::string>(12, "0"));
    for (unsigned tens = 0; tens < 20; ++tens) {
        scene.pass(10'000);
        for (unsigned node = 1; node <= 12; ++node) scene.say(node, Progress{});
    }
    auto is_first = [&](unsigned source) {
        for (unsigned node = 1; node <= 12; ++node)
            for (unsigned stripe : {0, 1})
                if ((scene.role(node, 0, stripe) + ' ').starts_with(cat("n", source, ' '))) return true;
        return false;
    };
    unsigned slow = 1;
    while (scene.role(slow, 0) == "own" || !is_first(slow)) REQUIRE(++slow <= 12);
    uint64_t last = 0;
    for (uint64_t second = 1; second <= 14; ++second) {
        scene.pass(1000);
        for (unsigned node = 1; node <= 12; ++node)
            scene.say(node, node == slow ? Progress{0, second * 10 * mega, second * 200 * mega}
                                         : Progress{0, second * 100 * mega});
        if (is_first(slow)) last = second;
    }
    CHECK(last >= 9);
    CHECK(last < 14);
}

namespace {

/// Six nodes that get 100 MB/s, but for one that brings the first layer, 10 GB, and gets 10 MB/s.
struct SlowOwner {
    SlowOwner() : scene(6) {
        scene.unit = 10'000 * mega;
        scene.all_come(std::vector<std::string>(6, "0"));
        slow = scene.owners(0, 6).at(0);
    }
    /// A second of all nodes: MB from the registry for the one, from other nodes for the others.
    void second(unsigned slow_one, uint64_t slow_rate, uint64_t others_rate, uint64_t behind, uint64_t others_behind) {
        scene.pass(1000);
        for (unsigned node = 1; node <= 6; ++node) {
            bool is_slow = node == slow_one;
            (is_slow ? said[node].registry : said[node].peers) += (is_slow ? slow_rate : others_rate) * mega;
            said[node].behind = (is_slow ? behind : others_behind) * mega;
            scene.say(node, said[node]);
        }
    }
    /// Until it is found that one is slow.
    void pass(unsigned slow_one) {
        for (unsigned count = 0; count < 4; ++count) second(slow_one, 10, 100, 200, 0);
    }
    std::vector<unsigned> owners() { return scene.owners(0, 6); }
    bool is_source(unsigned source) {
        for (unsigned node = 1; node <= 6; ++node)
            for (unsigned stripe : {0, 1})
                if (std::ranges::count(split(scene.role(node, 0, stripe), ' '), cat("n", source)) > 0) return true;
        return false;
    }

    Scene scene;
    unsigned slow = 0;
    std::array<Progress, 7> said = {};
};

}  // namespace

TEST_CASE("tracker: what a slow node brings is brought by another one too, once", "[share]") {
    SlowOwner it;
    it.pass(it.slow);
    auto owners = it.owners();
    REQUIRE(owners.size() == 1);
    unsigned second = owners[0];
    CHECK(second != it.slow);
    // All others are told, and nobody waits for the slow one.
    CHECK_FALSE(it.is_source(it.slow));
    SECTION("also when that one is slow as well") {
        it.pass(second);
        CHECK(it.owners() == owners);
    }
    SECTION("whoever has it first, has it for all") {
        it.scene.sealed(it.slow, 0);
        for (unsigned node = 1; node <= 6; ++node) CHECK(it.scene.count<Complete>(node) == (node == it.slow ? 0 : 1));
        it.scene.sealed(second, 0);
        for (unsigned node = 1; node <= 6; ++node) CHECK(it.scene.count<Complete>(node) == (node == it.slow ? 0 : 1));
        // And it goes on when the other one is lost.
        it.scene.lost(second);
        CHECK(it.scene.role(it.slow, 0) == "own");
    }
    SECTION("nobody waits for the slow one either when the others are no faster any more, until it has the layer") {
        for (unsigned count = 0; count < 4; ++count) it.second(it.slow, 10, 10, 100, 0);
        it.scene.say(6, Complaint{key_of(second), 0, Fault::silent, "nothing comes"});
        CHECK_FALSE(it.is_source(it.slow));
        it.scene.sealed(it.slow, 0);
        it.scene.lost(second);
        CHECK(it.is_source(it.slow));
    }
}

TEST_CASE("tracker: a slow owner is found after the others have got all but what it brings", "[share]") {
    SlowOwner it;
    for (unsigned count = 0; count < 3; ++count) it.second(it.slow, 10, 100, 50, 0);
    CHECK(it.owners() == std::vector{it.slow});
    // They get that as it comes, and it has not got the other layers yet.
    for (unsigned count = 0; count < 3; ++count) it.second(it.slow, 10, 5, 300, 0);
    CHECK(it.owners() != std::vector{it.slow});
}

TEST_CASE("tracker: an owner is not slow by itself when all have got slow", "[share]") {
    SlowOwner it;
    for (unsigned count = 0; count < 3; ++count) it.second(it.slow, 50, 100, 50, 0);
    SECTION("and what they could have waits for them, too") {
        for (unsigned count = 0; count < 6; ++count) it.second(it.slow, 10, 10, 300, 100);
    }
    SECTION("and nothing waits for anybody, as with a slow registry") {
        for (unsigned count = 0; count < 6; ++count) it.second(it.slow, 10, 10, 0, 0);
    }
    SECTION("for one report") {
        it.second(it.slow, 10, 5, 300, 0);
        it.second(it.slow, 60, 5, 300, 0);
        it.second(it.slow, 10, 5, 300, 0);
    }
    CHECK(it.owners() == std::vector{it.slow});
}

TEST_CASE("tracker: what a slow node has brought for the most part is not brought anew", "[share]") {
    SlowOwner it;
    it.said[it.slow].registry = 9000 * mega;
    it.pass(it.slow);
    CHECK(it.owners() == std::vector{it.slow});
}

TEST_CASE("tracker: an owner that sends to others stays, unless what it sends is wrong", "[share]") {
    Scene scene(6);
    scene.all_come(std::vector<std::string>(6, "0"));
    unsigned owner = scene.owners(0, 6).at(0);
    auto others_complain = [&](Fault fault) {
        for (unsigned node = 1; node <= 6; ++node)
            if (node != owner) scene.say(node, Complaint{key_of(owner), 0, fault, "what it does"});
    };
    auto is_owner = [&] { return scene.owners(0, 6) == std::vector{owner}; };
    scene.say(owner, Progress{.registry = 100, .sent = 100});
    scene.pass(2000);
    SECTION("it is silent to some") {
        others_complain(Fault::silent);
        CHECK(is_owner());
        scene.say(owner, Progress{.registry = 100, .sent = 100});
        scene.pass(4000);
        others_complain(Fault::silent);
        CHECK_FALSE(is_owner());
    }
    SECTION("wrong bytes") {
        others_complain(Fault::wrong);
        CHECK_FALSE(is_owner());
    }
}

TEST_CASE("tracker: a node's list goes up its tree, also when its parent is gone", "[share]") {
    Scene scene(12);
    scene.all_come(std::vector<std::string>(12, "0"));
    auto sources = [&](unsigned node, unsigned stripe) { return split(scene.role(node, 0, stripe), ' '); };
    // The second source of a node is the first source of its first one.
    unsigned moved = 0;
    for (unsigned node = 1; node <= 12; ++node)
        for (unsigned stripe : {0, 1}) {
            std::vector<std::string> own = sources(node, stripe);
            if (own.size() < 2) continue;
            unsigned parent = static_cast<unsigned>(std::stoul(own[0].substr(1)));
            CHECK(sources(parent, stripe)[0] == own[1]);
            if (moved == 0) moved = node;
        }
    REQUIRE(moved != 0);
    std::vector<std::string> before = sources(moved, 0);
    if (before.size() < 2) before = sources(moved, 1);
    auto parent = static_cast<unsigned>(std::stoul(before[0].substr(1)));
    scene.lost(parent);
    CHECK(scene.count<NewRole>(moved) == 1);
    bool goes_up = sources(moved, 0)[0] == before[1] || sources(moved, 1)[0] == before[1];
    CHECK(goes_up);
    for (unsigned node = 1; node <= 12; ++node)
        for (unsigned stripe : {0, 1})
            if (node != parent) CHECK(sources(node, stripe)[0] != cat("n", parent));
}

TEST_CASE("tracker: nodes are released though one of the step never came, while they tell their progress", "[share]") {
    Scene scene(3);
    scene.hello(1);
    scene.documents(1);
    scene.have(1, "0");
    scene.hello(2);
    scene.have(2, "0");
    scene.pass(3500);
    for (unsigned node : {1, 2}) scene.say(node, Finished{});
    for (unsigned second = 0; second < 4; ++second) {
        scene.pass(1000);
        for (unsigned node : {1, 2}) scene.say(node, Progress{mega, 0});
    }
    for (unsigned node : {1, 2}) CHECK(scene.count<Finished>(node) == 1);
}

TEST_CASE("tracker: a slow node does not follow a lost owner", "[share]") {
    Scene scene(4);
    scene.all_come({"0", "0", "0", "0"});
    unsigned owner = scene.owners(0, 4).at(0);
    Nodes others;
    for (unsigned node = 1; node <= 4; ++node)
        if (node != owner) others.push_back(node);
    for (uint64_t second = 0; second < 3; ++second) {
        scene.pass(1000);
        scene.say(others[0], Progress{0, second * 10 * mega});
        scene.say(others[1], Progress{0, second * 100 * mega});
        scene.say(others[2], Progress{0, second * 100 * mega});
    }
    CHECK(scene.all<StepStatus>(others[1]).back().median == Approx(100 * mega).epsilon(0.05));
    scene.lost(owner);
    CHECK(scene.role(others[0], 0) != "own");
}

TEST_CASE("tracker: each node learns how far all are, and one of those that still pull tells people", "[share]") {
    Scene scene(4);
    // One layer of 1 MiB, one of 2.
    scene.all_come({"00", "00", "01", "11"});
    scene.say(4, Finished{});
    for (uint64_t second = 1; second <= 2; ++second) {
        scene.pass(1000);
        scene.say(1, Progress{second * mega, second * mega / 2});
        scene.say(2, Progress{0, second * mega});
        scene.say(3, Progress{0, second * mega / 4});
    }
    scene.pass(1000);
    scene.say(2, Progress{0, 2 * mega});
    StepStatus status = scene.all<StepStatus>(2).back();
    CHECK(status.nodes == 4);
    CHECK(status.ready == 1);
    CHECK(status.registry == 2 * mega);
    CHECK(status.peers == 3 * mega + mega / 2);
    // Node 3 has got less, but node 2 lacks more.
    CHECK(status.last == "n2");
    CHECK(status.last_bytes == 2 * mega);
    CHECK(status.last_total == 3 * mega);
    CHECK_FALSE(status.is_told_here);
    CHECK(scene.all<StepStatus>(1).back().is_told_here);
    scene.say(1, Finished{});
    scene.pass(1000);
    scene.say(3, Progress{0, mega / 2});
    CHECK_FALSE(scene.all<StepStatus>(3).back().is_told_here);
    scene.say(2, Progress{0, 2 * mega});
    CHECK(scene.all<StepStatus>(2).back().is_told_here);
    CHECK(scene.all<StepStatus>(2).back().ready == 2);
}

TEST_CASE("tracker: a node whose link is under half of the usual brings no layer, and nobody takes from it",
          "[share]") {
    auto of = [](const std::vector<uint64_t>& links) {
        Scene scene(6);
        for (unsigned node = 1; node <= 6; ++node) scene.hello(node, image_a, links[node - 1]);
        scene.documents(1);
        for (unsigned node = 1; node <= 6; ++node) scene.have(node, "0000");
        REQUIRE(scene.count<Plan>(1) == 1);
        return scene.serving(4, 6);
    };
    CHECK(of({10'000, 25'000, 25'000, 25'000, 25'000, 25'000}) == Nodes{2, 3, 4, 5, 6});
    CHECK(of({25'000, 25'000, 10'000, 25'000, 0, 0}) == Nodes{1, 2, 4, 5, 6});
    // Half of it is not slow; and what is not known is not.
    CHECK(of({10'000, 20'000, 20'000, 20'000, 20'000, 20'000}) == Nodes{1, 2, 3, 4, 5, 6});
    CHECK(of({0, 25'000, 25'000, 25'000, 25'000, 25'000}) == Nodes{1, 2, 3, 4, 5, 6});
    CHECK(of({0, 0, 0, 0, 0, 0}) == Nodes{1, 2, 3, 4, 5, 6});
}
