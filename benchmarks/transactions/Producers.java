// Kafka's own producers, several at once, as fast as they can: one line of input for one run.
//
//     java Producers.java BOOTSTRAP VALUE_BYTES PRODUCERS
//     in:  "transactional TOPIC COUNT"    out: "ready"    in: "go"    out: "done"
//
// What the modes are stands in producers.py. Each producer sends one message, or commits one transaction, before "ready".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Producers {
    static final int TRANSACTION_MESSAGES = 1_000;
    static final int VALUES = 16;
    static volatile Exception failure;
    static final Callback CHECK = (metadata, error) -> { if (error != null) failure = error; };

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        byte[][] values = values(Integer.parseInt(arguments[1]));
        int producers = Integer.parseInt(arguments[2]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        try {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] asked = line.split(" ");
                run(in, bootstrap, values, producers, asked[0], asked[1], Integer.parseInt(asked[2]));
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    static void run(
        BufferedReader in, String bootstrap, byte[][] values, int producers, String mode, String topic, int count
    ) throws Exception {
        boolean isTransactional = mode.equals("transactional");
        List<KafkaProducer<byte[], byte[]>> made = new ArrayList<>();
        for (int number = 0; number < producers; number++) {
            KafkaProducer<byte[], byte[]> producer = producer(bootstrap, isTransactional ? topic + "-" + number : null);
            if (isTransactional) producer.initTransactions();
            send(producer, mode, topic, values, 1);
            producer.flush();
            made.add(producer);
        }
        System.out.println("ready");
        in.readLine();
        ExecutorService threads = Executors.newFixedThreadPool(producers);
        List<Future<Void>> running = new ArrayList<>();
        for (KafkaProducer<byte[], byte[]> producer : made) {
            running.add(threads.submit(() -> {
                for (int sent = 0; sent < count / producers; sent += TRANSACTION_MESSAGES)
                    send(producer, mode, topic, values, TRANSACTION_MESSAGES);
                producer.flush();
                return null;
            }));
        }
        for (Future<Void> each : running) each.get();
        if (failure != null) throw failure;
        System.out.println("done");
        threads.shutdown();
        for (KafkaProducer<byte[], byte[]> producer : made) producer.close();
    }

    static void send(KafkaProducer<byte[], byte[]> producer, String mode, String topic, byte[][] values, int count) {
        if (mode.equals("transactional")) producer.beginTransaction();
        for (int number = 0; number < count; number++)
            producer.send(new ProducerRecord<>(topic, values[number % VALUES]), CHECK);
        if (mode.equals("transactional")) producer.commitTransaction();
        else if (mode.equals("waiting")) producer.flush();
    }

    static KafkaProducer<byte[], byte[]> producer(String bootstrap, String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("linger.ms", "5");
        if (transactionalId != null) settings.put("transactional.id", transactionalId);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static byte[][] values(int size) {
        Random random = new Random(1);
        byte[][] values = new byte[VALUES][size];
        for (byte[] value : values)
            for (int at = 0; at < size; at++) value[at] = (byte) (' ' + random.nextInt(90));
        return values;
    }
}
