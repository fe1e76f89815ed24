#include "tests/catch.hh"
#include "tests/unit/pull_share_tracker.hh"

using namespace berth;
using namespace berth::pull::nodes;

using Nodes = std::vector<unsigned>;

TEST_CASE("tracker: the first node brings the documents, the others get them", "[share]") {
    Scene scene(3);
    scene.hello(1);
    scene.hello(2);
    CHECK(scene.count<Fetch>(1) == 1);
    CHECK(scene.got[2].empty());
    scene.documents(1);
    CHECK(scene.count<Documents>(2) == 1);
    CHECK(scene.count<Documents>(1) == 0);
    scene.hello(3);
    REQUIRE(scene.count<Documents>(3) == 1);
    CHECK(scene.all<Documents>(3)[0].documents[0].bytes == "{}");
    CHECK(scene.count<Fetch>(2) + scene.count<Fetch>(3) == 0);
}

TEST_CASE("tracker: another node brings the documents when the first is lost, or cannot", "[share]") {
    Scene scene(3);
    for (unsigned node : {1, 2, 3}) scene.hello(node);
    SECTION("lost") {
        scene.lost(1);
        CHECK(scene.count<Fetch>(2) == 1);
    }
    SECTION("failed") {
        scene.say(1, Alone{std::nullopt, "401"});
        CHECK(scene.count<Fetch>(2) == 1);
        scene.documents(2);
        CHECK(scene.count<Documents>(1) == 1);
        CHECK(scene.count<Documents>(3) == 1);
    }
    SECTION("silent") {
        scene.pass(14'000);
        CHECK(scene.count<Fetch>(2) == 0);
        scene.pass(2'000);
        CHECK(scene.count<Fetch>(2) == 1);
        CHECK(scene.count<Fetch>(3) == 0);
    }
    CHECK(scene.count<Alone>(1) + scene.count<Alone>(2) + scene.count<Alone>(3) == 0);
}

TEST_CASE("tracker: after two nodes that could not bring the documents everybody pulls alone", "[share]") {
    Scene scene(4);
    for (unsigned node : {1, 2, 3}) scene.hello(node);
    scene.say(1, Alone{std::nullopt, "401"});
    scene.say(2, Alone{std::nullopt, "the registry says no"});
    scene.hello(4);
    for (unsigned node : {1, 2, 3, 4}) {
        REQUIRE(scene.count<Alone>(node) == 1);
        CHECK_FALSE(scene.all<Alone>(node)[0].layer);
        CHECK(scene.all<Alone>(node)[0].reason.find("the registry says no") != std::string::npos);
    }
    CHECK(scene.count<Fetch>(3) == 0);
}

TEST_CASE("tracker: one that could not bring the documents and has nobody else is not kept waiting", "[share]") {
    Scene scene(2);
    scene.hello(1);
    scene.say(1, Alone{std::nullopt, "401"});
    CHECK(scene.count<Alone>(1) == 1);
    scene.hello(2);
    CHECK(scene.count<Fetch>(2) == 1);
}

TEST_CASE("tracker: once all nodes have said what they have there is a plan at once", "[share]") {
    Scene scene(3);
    scene.all_come({"00", "00"});
    CHECK(scene.count<Plan>(1) == 0);
    scene.hello(3);
    scene.have(3, "00");
    for (unsigned node : {1, 2, 3}) CHECK(scene.count<Plan>(node) == 1);
    CHECK(scene.owners(0, 3).size() == 1);
    CHECK(scene.owners(1, 3).size() == 1);
    CHECK(scene.owners(0, 3) != scene.owners(1, 3));
}

TEST_CASE("tracker: every node that lacks a layer has sources for both stripes, and knows how to reach them",
          "[share]") {
    Scene scene(9);
    scene.all_come(std::vector<std::string>(9, "000"));
    for (unsigned node = 1; node <= 9; ++node)
        for (unsigned layer = 0; layer < 3; ++layer)
            for (unsigned stripe = 0; stripe < stripe_count; ++stripe) {
                std::string role = scene.role(node, layer, stripe);
                CHECK_FALSE(role.empty());
                CHECK(role != cat("n", node));
            }
    Plan plan = scene.all<Plan>(5)[0];
    REQUIRE_FALSE(plan.peers.empty());
    for (const Peer& peer : plan.peers) CHECK((peer.port == 4000 && peer.key.starts_with("sha256//")));
    CHECK(std::none_of(plan.peers.begin(), plan.peers.end(), [](const Peer& peer) { return peer.node == "n5"; }));
}

TEST_CASE("tracker: it waits half a second for nodes that have not come, and no longer than three for an answer",
          "[share]") {
    Scene scene(5);
    scene.all_come({"0", "0"});
    SECTION("not come") {
        scene.pass(450);
        CHECK(scene.count<Plan>(1) == 0);
        scene.pass(100);
        CHECK(scene.count<Plan>(1) == 1);
    }
    SECTION("another one comes meanwhile") {
        scene.pass(300);
        scene.hello(3);
        scene.have(3, "0");
        scene.pass(400);
        CHECK(scene.count<Plan>(1) == 0);
        scene.pass(200);
        CHECK(scene.count<Plan>(3) == 1);
    }
    SECTION("no answer") {
        scene.hello(3);
        scene.pass(2'800);
        CHECK(scene.count<Plan>(1) == 0);
        scene.pass(300);
        CHECK(scene.count<Plan>(1) == 1);
        CHECK(scene.count<Plan>(3) == 0);
        scene.have(3, "0");
        CHECK(scene.count<Plan>(3) == 1);
    }
}

TEST_CASE("tracker: a node that nobody follows begins after 150 ms, and later ones join it", "[share]") {
    Scene scene(4);
    scene.hello(1);
    scene.documents(1);
    scene.have(1, "00");
    scene.pass(130);
    CHECK(scene.count<Plan>(1) == 0);
    scene.pass(50);
    REQUIRE(scene.count<Plan>(1) == 1);
    CHECK(scene.owners(0, 1) == Nodes{1});
    CHECK(scene.owners(1, 1) == Nodes{1});
    scene.hello(2);
    scene.have(2, "00");
    CHECK(scene.role(2, 0) == "n1");
    CHECK(scene.role(2, 1, 1) == "n1");
    CHECK(scene.role(1, 0) == "own");
}

TEST_CASE("tracker: who has a layer serves it when somebody lacks it, and nobody asks the registry", "[share]") {
    Scene scene(3);
    scene.all_come({"11", "11", "01"});
    Nodes owners = scene.owners(0, 3);
    CHECK((!owners.empty() && std::find(owners.begin(), owners.end(), 3U) == owners.end()));
    CHECK_FALSE(scene.role(3, 0).empty());
    // Of what everybody has there is nothing to do.
    CHECK(scene.owners(1, 3).empty());
    CHECK(scene.role(3, 1).empty());
}

TEST_CASE("tracker: a step in which all have everything has nothing to do, and ends at once", "[share]") {
    Scene scene(3);
    scene.all_come({"11", "11", "11"});
    for (unsigned node : {1, 2, 3}) {
        CHECK(scene.role(node, 0).empty());
        scene.say(node, Finished{});
    }
    for (unsigned node : {1, 2, 3}) CHECK(scene.count<Finished>(node) == 1);
}

TEST_CASE("tracker: that a layer is sealed is told to all that lack it, and to late ones behind their plan",
          "[share]") {
    Scene scene(4);
    scene.all_come({"0", "0", "0"});
    scene.pass(600);
    unsigned owner = scene.owners(0, 3).at(0), other = owner == 1 ? 2 : 1, third = 6 - owner - other;
    scene.say(third, Done{0});
    scene.sealed(owner, 0);
    CHECK(scene.count<Complete>(owner) == 0);
    CHECK(scene.count<Complete>(third) == 0);
    REQUIRE(scene.count<Complete>(other) == 1);
    CHECK(scene.all<Complete>(other)[0].chunks == chunks_one);
    scene.hello(4);
    scene.have(4, "0");
    REQUIRE(scene.count<Complete>(4) == 1);
    CHECK(std::holds_alternative<Plan>(scene.got[4][scene.got[4].size() - 2]));
}

TEST_CASE("tracker: an owner that is lost before its layer is sealed has a successor, and all are told", "[share]") {
    Scene scene(4);
    scene.all_come({"0", "0", "0", "0"});
    unsigned first = scene.owners(0, 4).at(0);
    scene.lost(first);
    unsigned second = 0;
    for (unsigned node = 1; node <= 4; ++node)
        if (node != first && scene.role(node, 0) == "own") second = node;
    REQUIRE(second != 0);
    for (unsigned node = 1; node <= 4; ++node) {
        if (node == first || node == second) continue;
        CHECK(scene.role(node, 0).find(cat("n", first)) == std::string::npos);
        CHECK(scene.role(node, 0).find(cat("n", second)) != std::string::npos);
        CHECK(scene.count<Alone>(node) == 0);
    }
    // However many are lost.
    scene.lost(second);
    Nodes left;
    for (unsigned node = 1; node <= 4; ++node)
        if (node != first && node != second && scene.role(node, 0) == "own") left.push_back(node);
    CHECK(left.size() == 1);
}

TEST_CASE("tracker: an owner that failed becomes a receiver; after the second one everybody pulls the layer alone",
          "[share]") {
    Scene scene(4);
    scene.all_come({"00", "00", "00", "00"});
    unsigned first = scene.owners(0, 4).at(0);
    scene.say(first, Alone{0, "disk full"});
    unsigned second = scene.owners(0, 4).at(0);
    CHECK(second != first);
    CHECK(scene.role(first, 0) == cat("n", second));
    scene.say(second, Alone{0, "it was 503"});
    for (unsigned node = 1; node <= 4; ++node) {
        REQUIRE(scene.count<Alone>(node) == 1);
        CHECK(scene.all<Alone>(node)[0].layer == 0U);
        CHECK(scene.all<Alone>(node)[0].reason == "it was 503");
    }
    // A late one too.
    Scene late(3);
    late.all_come({"0", "0"});
    late.pass(600);
    late.say(late.owners(0, 2).at(0), Alone{0, "a"});
    late.say(late.owners(0, 2).at(0), Alone{0, "b"});
    late.hello(3);
    late.have(3, "0");
    REQUIRE(late.count<Alone>(3) == 1);
    CHECK(late.all<Alone>(3)[0].layer == 0U);
}

TEST_CASE("tracker: an owner that is lost after its layer was sealed is followed by one that has it", "[share]") {
    Scene scene(3);
    scene.all_come({"0", "0", "0"});
    unsigned owner = scene.owners(0, 3).at(0), done = owner == 1 ? 2 : 1, other = 6 - owner - done;
    scene.sealed(owner, 0);
    SECTION("that has it") {
        scene.say(done, Done{0});
        scene.lost(owner);
        CHECK(scene.role(done, 0) == "own");
        CHECK(scene.role(other, 0) == cat("n", done));
    }
    SECTION("or that brings it again") {
        scene.lost(owner);
        bool is_done = scene.role(done, 0) == "own", is_other = scene.role(other, 0) == "own";
        CHECK(is_done != is_other);
    }
}

TEST_CASE("tracker: a node with a whole layer that comes late follows a lost owner", "[share]") {
    Scene scene(4);
    scene.all_come({"0", "0"});
    scene.pass(600);
    unsigned owner = scene.owners(0, 2).at(0), other = 3 - owner;
    scene.hello(3);
    scene.have(3, "1");
    CHECK(scene.role(3, 0).empty());
    scene.lost(owner);
    CHECK(scene.role(3, 0) == "own");
    CHECK(scene.role(other, 0) == "n3");
}

TEST_CASE("tracker: late nodes that lack what nobody has any more bring it, once", "[share]") {
    Scene scene(4);
    scene.all_come({"0"});
    scene.pass(200);
    scene.sealed(1, 0);
    scene.hello(2);
    scene.have(2, "1");
    scene.lost(1);
    scene.lost(2);
    scene.hello(3);
    // The documents are there still.
    CHECK(scene.count<Fetch>(3) == 0);
    CHECK(scene.count<Documents>(3) == 1);
    scene.have(3, "0");
    scene.pass(200);
    CHECK(scene.role(3, 0) == "own");
    scene.hello(4);
    scene.have(4, "0");
    CHECK(scene.role(4, 0) == "n3");
}

TEST_CASE("tracker: who has a layer and was not needed serves it for one that comes late", "[share]") {
    Scene scene(4);
    scene.all_come({"1", "1"});
    scene.pass(600);
    CHECK(scene.owners(0, 2).empty());
    scene.hello(3);
    scene.have(3, "0");
    CHECK_FALSE(scene.owners(0, 2).empty());
    CHECK(scene.role(3, 0).find(cat("n", scene.owners(0, 2).at(0))) != std::string::npos);
}

TEST_CASE("tracker: two nodes that complain about a third keep it out of later plans, one does not", "[share]") {
    Scene scene(12);
    scene.all_come(std::vector<std::string>(8, "0"));
    scene.pass(600);
    unsigned owner = scene.owners(0, 8).at(0);
    unsigned bad = owner == 3 ? 4 : 3, one = owner == 1 ? 2 : 1, two = owner == 7 ? 8 : 7;
    scene.say(one, Complaint{key_of(bad), 0, Fault::silent, "it fell silent"});
    scene.say(one, Complaint{key_of(bad), 0, Fault::silent, "it fell silent again"});
    scene.lost(owner);
    unsigned next = 0;
    for (unsigned node = 1; node <= 8; ++node)
        if (node != owner && scene.role(node, 0) == "own") next = node;
    scene.say(two, Complaint{key_of(bad), 0, Fault::wrong, "it sent wrong bytes"});
    scene.say(one, Complaint{key_of(bad), 0, Fault::silent, "it fell silent"});
    REQUIRE(next != bad);
    scene.lost(next);
    CHECK(scene.role(bad, 0) != "own");
    for (unsigned node = 1; node <= 8; ++node)
        if (node != owner && node != next && node != bad)
            CHECK(scene.role(node, 0).find(cat("n", bad)) == std::string::npos);
    for (unsigned node = 9; node <= 11; ++node) {
        scene.hello(node);
        scene.have(node, "0");
        CHECK((" " + scene.role(node, 0) + " ").find(cat(" n", bad, " ")) == std::string::npos);
    }
}

TEST_CASE("tracker: an owner that nobody reaches is replaced by one that lacks the layer", "[share]") {
    Scene scene(3);
    scene.all_come({"0", "0", "0"});
    unsigned owner = scene.owners(0, 3).at(0), one = owner == 1 ? 2 : 1, two = 6 - owner - one;
    scene.say(one, Complaint{key_of(owner), 0, Fault::silent, "no answer"});
    scene.say(two, Complaint{key_of(owner), 0, Fault::silent, "no answer"});
    scene.say(one, Alone{0, "no source answers"});
    CHECK(scene.count<Alone>(one) + scene.count<Alone>(two) == 0);
    bool is_one = scene.role(one, 0) == "own", is_two = scene.role(two, 0) == "own";
    CHECK(is_one != is_two);
}

TEST_CASE("tracker: two owners that nobody reaches are followed by a third, though both have the layer", "[share]") {
    Scene scene(5);
    scene.all_come({"0", "0", "0", "0", "0"});
    std::vector<unsigned> others{1, 2, 3, 4, 5};
    auto take_owner = [&] {
        auto owns = [&](unsigned node) { return scene.role(node, 0) == "own"; };
        auto found = std::find_if(others.begin(), others.end(), owns);
        REQUIRE(found != others.end());
        unsigned owner = *found;
        others.erase(found);
        return owner;
    };
    std::vector<unsigned> out_of_reach;
    for (int round = 0; round < 2; ++round) {
        unsigned owner = take_owner();
        out_of_reach.push_back(owner);
        scene.sealed(owner, 0);
        for (unsigned node : {others[0], others[1]})
            scene.say(node, Complaint{key_of(owner), 0, Fault::silent, "no answer"});
    }
    unsigned last = take_owner();
    for (unsigned node : others) {
        std::string role = scene.role(node, 0);
        INFO(role);
        CHECK(role.ends_with(cat("n", last)));
        for (unsigned gone : out_of_reach) CHECK(role.find(cat("n", gone)) == std::string::npos);
    }
}

TEST_CASE("tracker: a receiver that none of its sources serves pulls that layer alone", "[share]") {
    Scene scene(3);
    scene.all_come({"00", "00", "00"});
    unsigned owner = scene.owners(0, 3).at(0), one = owner == 1 ? 2 : 1;
    scene.say(one, Alone{0, "no source answers"});
    REQUIRE(scene.count<Alone>(one) == 1);
    CHECK(scene.all<Alone>(one)[0].layer == 0U);
    scene.sealed(owner, 0);
    CHECK(scene.count<Complete>(one) == 0);
    // It can still be done for all.
    scene.say(one, Done{0});
    scene.lost(owner);
    CHECK(scene.role(6 - owner - one, 0) == cat("n", one));
}

TEST_CASE("tracker: layers of two nodes that differ are not mixed", "[share]") {
    Scene scene(4);
    scene.all_come({"1", "1", "0", "0"});
    scene.sealed(1, 0, chunks_one);
    scene.sealed(2, 0, chunks_two);
    for (unsigned node : {3, 4}) {
        CHECK(scene.count<Complete>(node) == 1);
        CHECK(scene.role(node, 0).find("n2") == std::string::npos);
        CHECK(scene.role(node, 0).find("n1") != std::string::npos);
    }
}

TEST_CASE("tracker: nodes of another image are another swarm, and are not waited for", "[share]") {
    Scene scene(4);
    scene.hello(1);
    scene.hello(2, image_b);
    scene.hello(3, image_b);
    CHECK(scene.count<Fetch>(1) == 1);
    CHECK(scene.count<Fetch>(2) == 1);
    scene.documents(1);
    scene.documents(2);
    CHECK(scene.count<Documents>(1) == 0);
    scene.have(1, "0");
    scene.have(2, "00");
    scene.have(3, "00");
    scene.hello(4);
    scene.have(4, "0");
    scene.pass(20);
    CHECK(scene.count<Plan>(1) == 1);
    CHECK(scene.count<Plan>(2) == 1);
    CHECK(scene.all<Plan>(2)[0].layers.size() == 2);
    CHECK(scene.role(1, 0).find("n2") == std::string::npos);
}

TEST_CASE("tracker: a node whose layers are others, or whose messages are, pulls alone and is no source", "[share]") {
    Scene scene(3);
    scene.hello(1);
    scene.documents(1);
    scene.hello(2);
    scene.say(3, Hello{{"n3", "192.0.2.3", 4000, key_of(3)}, 2, image_a, release + 1});
    CHECK(scene.count<Alone>(3) == 1);
    CHECK(scene.count<Documents>(3) == 0);
    scene.have(1, "00");
    scene.say(2, Have{{5, 6}, {true, true}});
    REQUIRE(scene.count<Alone>(2) == 1);
    CHECK(scene.count<Plan>(1) == 1);
    CHECK(scene.role(1, 0) == "own");
}

TEST_CASE("tracker: all are released when all have finished, and everybody has come or is not to be expected",
          "[share]") {
    Scene scene(3);
    scene.all_come({"0", "0"});
    scene.pass(600);
    scene.sealed(scene.owners(0, 2).at(0), 0);
    scene.say(1, Finished{});
    scene.say(2, Finished{});
    SECTION("the last one has not come") {
        scene.pass(1900);
        CHECK(scene.count<Finished>(1) == 0);
        scene.pass(200);
        CHECK(scene.count<Finished>(1) == 1);
        CHECK(scene.count<Finished>(2) == 1);
        // Who comes then begins anew, with the documents that are known.
        scene.hello(3);
        CHECK(scene.count<Documents>(3) == 1);
        scene.lost(1);
        scene.have(3, "0");
        scene.pass(200);
        CHECK(scene.role(3, 0) == "own");
        scene.say(3, Finished{});
        CHECK(scene.count<Finished>(3) == 1);
        CHECK(scene.count<Finished>(2) == 1);
    }
    SECTION("it comes") {
        scene.hello(3);
        scene.have(3, "0");
        CHECK_FALSE(scene.role(3, 0).empty());
        CHECK(scene.count<Finished>(1) == 0);
        scene.say(3, Finished{});
        CHECK(scene.count<Finished>(1) == 1);
    }
    SECTION("it comes and is lost") {
        scene.hello(3);
        scene.lost(3);
        CHECK(scene.count<Finished>(1) == 1);
    }
}

TEST_CASE("tracker: a node that gives up is let go, and its layers go to another", "[share]") {
    Scene scene(3);
    scene.all_come({"000", "000", "000"});
    unsigned owner = scene.owners(0, 3).at(0);
    scene.say(owner, Alone{std::nullopt, "no room for the image"});
    CHECK(scene.count<Alone>(owner) == 1);
    for (unsigned layer = 0; layer < 3; ++layer) {
        Nodes owners;
        for (unsigned node = 1; node <= 3; ++node)
            if (node != owner && scene.role(node, layer) == "own") owners.push_back(node);
        CHECK(owners.size() == 1);
    }
}
