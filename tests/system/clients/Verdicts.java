import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/**
 * Which error the Java client reports to its application.
 *
 * <p>Arguments: bootstrap address, topic. Takes lines "client id, API" with a tab between them, calls what sends a
 * request of this API, and answers each with "client id, name of the error" (NONE without one), in any order;
 * none for an API that the client does not use.
 */
class Verdicts {
    interface AdminCall { KafkaFuture<?> by(Admin admin) throws Exception; }

    interface Call { void by(String id) throws Exception; }

    static final Duration WAIT = Duration.ofSeconds(30);
    static final Map<String, Call> CALLS = new LinkedHashMap<>();
    static String bootstrap;
    static String topic;
    static TopicPartition place;

    static Properties settings(String id, String... more) {
        Properties made = new Properties();
        String bytes = "org.apache.kafka.common.serialization.ByteArray";
        made.putAll(Map.of(
            "bootstrap.servers", bootstrap, "client.id", id, "key.serializer", bytes + "Serializer",
            "value.serializer", bytes + "Serializer", "key.deserializer", bytes + "Deserializer",
            "value.deserializer", bytes + "Deserializer", "enable.metrics.push", "false"));
        for (int at = 0; at < more.length; at += 2) made.put(more[at], more[at + 1]);
        return made;
    }

    static void admin(String api, AdminCall call) {
        CALLS.put(api, id -> {
            try (Admin admin = Admin.create(settings(id))) {
                call.by(admin).get();
            }
        });
    }

    static void group(String api, String... more) {
        CALLS.put(api, id -> {
            try (var consumer = new KafkaConsumer<byte[], byte[]>(member(id, more))) {
                consumer.subscribe(List.of(topic));
                long end = System.nanoTime() + WAIT.toNanos();
                while (System.nanoTime() < end) consumer.poll(Duration.ofMillis(200));
            }
        });
    }

    static Properties member(String id, String... more) {
        Properties made = settings(id, "group.id", id, "enable.auto.commit", "false", "auto.offset.reset", "earliest");
        for (int at = 0; at < more.length; at += 2) made.put(more[at], more[at + 1]);
        return made;
    }

    interface ConsumerCall { void by(KafkaConsumer<byte[], byte[]> consumer); }

    static void consumer(String api, ConsumerCall call) {
        CALLS.put(api, id -> {
            try (var consumer = new KafkaConsumer<byte[], byte[]>(member(id))) {
                consumer.assign(List.of(place));
                call.by(consumer);
            }
        });
    }

    interface Transaction { void by(KafkaProducer<byte[], byte[]> producer, String id) throws Exception; }

    static void transaction(String api, Transaction call) {
        CALLS.put(api, id -> {
            try (var producer = new KafkaProducer<byte[], byte[]>(settings(id, "transactional.id", id))) {
                producer.initTransactions();
                producer.beginTransaction();
                call.by(producer, id);
                producer.commitTransaction();
            }
        });
    }

    static KafkaShareConsumer<byte[], byte[]> share(String id) {
        var consumer = new KafkaShareConsumer<byte[], byte[]>(
            settings(id, "group.id", "share", "share.acknowledgement.mode", "explicit"));
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    static KafkaFuture<?> any(Collection<? extends KafkaFuture<?>> futures) {
        return futures.iterator().next();
    }

    static AclBinding binding(ResourcePattern pattern, AclOperation operation) {
        return new AclBinding(pattern, new AccessControlEntry("User:a", "*", operation, AclPermissionType.ALLOW));
    }

    static void calls() {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var pattern = new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL);
        AclBinding binding = binding(pattern, AclOperation.READ), other = binding(pattern, AclOperation.WRITE);
        var entity = new ClientQuotaEntity(Map.of("user", "a"));
        var offset = Map.of(place, new OffsetAndMetadata(0));

        CALLS.put("Produce", id -> {
            try (var producer = new KafkaProducer<byte[], byte[]>(settings(id))) {
                producer.send(new ProducerRecord<>(topic, 0, null, new byte[1])).get();
            }
        });
        consumer("Fetch", consumer -> consumer.poll(WAIT));
        admin("ListOffsets", admin -> admin.listOffsets(Map.of(place, OffsetSpec.latest())).all());
        CALLS.put("Metadata", id -> {
            try (var producer = new KafkaProducer<byte[], byte[]>(settings(id))) {
                producer.partitionsFor(topic);
            }
        });
        consumer("OffsetCommit", consumer -> consumer.commitSync(offset));
        consumer("OffsetFetch", consumer -> consumer.committed(Set.of(place), WAIT));
        admin("FindCoordinator", admin -> admin.describeClassicGroups(List.of("g")).describedGroups().get("g"));
        group("JoinGroup");
        group("SyncGroup");
        group("Heartbeat", "heartbeat.interval.ms", "300");
        admin("LeaveGroup", admin -> admin.removeMembersFromConsumerGroup(
            "g", new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("m")))).all());
        admin("DescribeGroups", admin -> admin.describeClassicGroups(List.of("g")).describedGroups().get("g"));
        admin("ListGroups", admin -> admin.listGroups().all());
        admin("CreateTopics", admin -> admin.createTopics(List.of(new NewTopic("n", 1, (short) 1))).all());
        admin("DeleteTopics", admin -> admin.deleteTopics(List.of(topic)).all());
        admin("DeleteRecords", admin -> admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(0))).all());
        transaction("InitProducerId", (producer, id) -> {});
        transaction("AddPartitionsToTxn", (producer, id) ->
            producer.send(new ProducerRecord<>(topic, 0, null, new byte[1])));
        transaction("AddOffsetsToTxn", (producer, id) -> {
            try (var consumer = new KafkaConsumer<byte[], byte[]>(member(id + "-group"))) {
                producer.sendOffsetsToTransaction(offset, consumer.groupMetadata());
            }
        });
        CALLS.put("TxnOffsetCommit", CALLS.get("AddOffsetsToTxn"));
        transaction("EndTxn", (producer, id) -> producer.send(new ProducerRecord<>(topic, 0, null, new byte[1])).get());
        admin("DescribeAcls", admin -> admin.describeAcls(AclBindingFilter.ANY).values());
        admin("CreateAcls", admin -> admin.createAcls(List.of(binding, other)).values().get(other));
        admin("DeleteAcls", admin -> admin.deleteAcls(List.of(binding.toFilter(), other.toFilter())).all());
        admin("DescribeConfigs", admin -> admin.describeConfigs(List.of(resource)).all());
        admin("AlterReplicaLogDirs", admin -> admin.alterReplicaLogDirs(
            Map.of(new TopicPartitionReplica(topic, 0, 1), "/d")).all());
        admin("DescribeLogDirs", admin -> admin.describeLogDirs(List.of(1)).descriptions().get(1).thenApply(found -> {
            for (var one : found.values()) if (one.error() != null) throw one.error();
            return found;
        }));
        admin("CreatePartitions", admin -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(9))).all());
        admin("CreateDelegationToken", admin -> admin.createDelegationToken().delegationToken());
        admin("RenewDelegationToken", admin -> admin.renewDelegationToken(new byte[1]).expiryTimestamp());
        admin("ExpireDelegationToken", admin -> admin.expireDelegationToken(new byte[1]).expiryTimestamp());
        admin("DescribeDelegationToken", admin -> admin.describeDelegationToken().delegationTokens());
        admin("DeleteGroups", admin -> admin.deleteConsumerGroups(List.of("g")).all());
        admin("ElectLeaders", admin -> admin.electLeaders(ElectionType.PREFERRED, Set.of(place)).all());
        admin("IncrementalAlterConfigs", admin -> admin.incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "1"), AlterConfigOp.OpType.SET)))).all());
        admin("AlterPartitionReassignments", admin -> admin.alterPartitionReassignments(
            Map.of(place, Optional.of(new NewPartitionReassignment(List.of(1))))).all());
        admin("ListPartitionReassignments", admin -> admin.listPartitionReassignments().reassignments());
        admin("OffsetDelete", admin -> admin.deleteConsumerGroupOffsets("g", Set.of(place)).all());
        admin("DescribeClientQuotas", admin -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        admin("AlterClientQuotas", admin -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            entity, List.of(new ClientQuotaAlteration.Op("request_percentage", 9.0))))).all());
        admin("DescribeUserScramCredentials", admin -> admin.describeUserScramCredentials(List.of("a")).all());
        admin("AlterUserScramCredentials", admin -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialDeletion("a", ScramMechanism.SCRAM_SHA_256))).all());
        admin("DescribeQuorum", admin -> admin.describeMetadataQuorum().quorumInfo());
        admin("UpdateFeatures", admin -> admin.updateFeatures(
            Map.of("f", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)),
            new UpdateFeaturesOptions()).all());
        admin("DescribeCluster", admin -> admin.describeCluster().nodes());
        admin("DescribeProducers", admin -> admin.describeProducers(List.of(place)).all());
        admin("UnregisterBroker", admin -> admin.unregisterBroker(9).all());
        admin("DescribeTransactions", admin -> admin.describeTransactions(List.of("t")).all());
        admin("ListTransactions", admin -> admin.listTransactions().all());
        group("ConsumerGroupHeartbeat", "group.protocol", "consumer");
        admin("ConsumerGroupDescribe", admin -> admin.describeConsumerGroups(List.of("g")).all());
        admin("ListConfigResources", admin -> admin.listConfigResources(
            Set.of(ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all());
        admin("DescribeTopicPartitions", admin -> {
            var named = admin.describeTopics(List.of(topic)).topicNameValues();
            return any(named.values());
        });
        CALLS.put("ShareGroupHeartbeat", id -> {
            try (var consumer = share(id)) {
                long end = System.nanoTime() + WAIT.toNanos();
                while (System.nanoTime() < end) consumer.poll(Duration.ofMillis(200));
            }
        });
        CALLS.put("ShareFetch", CALLS.get("ShareGroupHeartbeat"));
        admin("ShareGroupDescribe", admin -> admin.describeShareGroups(List.of("g")).all());
        admin("AddRaftVoter", admin -> admin.addRaftVoter(
            9, Uuid.ONE_UUID, Set.of(new RaftVoterEndpoint("CONTROLLER", "h", 1))).all());
        admin("RemoveRaftVoter", admin -> admin.removeRaftVoter(9, Uuid.ONE_UUID).all());
        admin("StreamsGroupDescribe", admin -> admin.describeStreamsGroups(List.of("g")).all());
        admin("DescribeShareGroupOffsets", admin -> admin.listShareGroupOffsets(
            Map.of("g", new ListShareGroupOffsetsSpec())).all());
        admin("AlterShareGroupOffsets", admin -> admin.alterShareGroupOffsets("g", Map.of(place, 0L)).all());
        admin("DeleteShareGroupOffsets", admin -> admin.deleteShareGroupOffsets("g", Set.of(topic)).all());
    }

    static String said(String id, String api) {
        try {
            CALLS.get(api).by(id);
            return "NONE";
        } catch (Throwable problem) {
            Throwable cause = problem;
            while (cause.getCause() != null && (cause instanceof ExecutionException
                    || cause.getClass() == KafkaException.class)) cause = cause.getCause();
            Errors error = Errors.forException(cause);
            return error == Errors.UNKNOWN_SERVER_ERROR ? cause.toString() : error.name();
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        place = new TopicPartition(topic, 0);
        calls();
        var threads = Executors.newFixedThreadPool(8);
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t");
            if (CALLS.containsKey(parts[1])) threads.submit(() -> System.out.println(parts[0] + "\t" + said(parts[0], parts[1])));
        }
        threads.shutdown();
    }
}
