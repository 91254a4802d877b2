package bellwether.broker;

import java.io.EOFException;
import java.io.IOException;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.*;

/** One kept connection, used by one thread, on which nothing waits longer than until a deadline. */
final class Line {
    private static final int SIZE_MAX = 64 << 20;
    private static final long NANOS_PER_MS = 1_000_000;

    private final SocketAddress address;
    private SocketChannel channel;
    private Selector selector;

    Line(SocketAddress address) {
        this.address = address;
    }

    /**
     * The answer to a request; {@code deadline} is by System.nanoTime. After an error the connection is closed: a late
     * answer would be taken for that to the next request.
     */
    ByteBuffer ask(ByteBuffer request, long deadline) throws IOException {
        boolean kept = channel != null;
        try {
            return exchange(request.duplicate(), deadline);
        } catch (IOException error) {
            close();
            if (!kept || error instanceof LateException) {
                throw error;
            }
        }
        return ask(request, deadline);  // Bellwether may have been restarted since the last request
    }

    private ByteBuffer exchange(ByteBuffer request, long deadline) throws IOException {
        if (channel == null) {
            open(deadline);
        }
        while (request.hasRemaining()) {
            if (channel.write(request) == 0) {
                await(SelectionKey.OP_WRITE, deadline);
            }
        }
        int size = read(Integer.BYTES, deadline).getInt();
        if (size < 0 || size > SIZE_MAX) {
            throw new IOException("the answer claims " + size + " bytes");
        }
        return read(size, deadline);
    }

    private ByteBuffer read(int size, long deadline) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(size);
        while (bytes.hasRemaining()) {
            int found = channel.read(bytes);
            if (found < 0) {
                throw new EOFException("Bellwether closed the connection");
            }
            if (found == 0) {
                await(SelectionKey.OP_READ, deadline);
            }
        }
        return bytes.flip();
    }

    private void open(long deadline) throws IOException {
        boolean unix = address instanceof UnixDomainSocketAddress;
        channel = unix ? SocketChannel.open(StandardProtocolFamily.UNIX) : SocketChannel.open();
        selector = Selector.open();
        channel.configureBlocking(false).register(selector, 0);
        channel.connect(address);
        while (!channel.finishConnect()) {
            await(SelectionKey.OP_CONNECT, deadline);
        }
    }

    private void await(int what, long deadline) throws IOException {
        long left = deadline - System.nanoTime();
        if (left <= 0 || Thread.currentThread().isInterrupted()) {  // interrupted: the broker stops
            throw new LateException();
        }
        channel.keyFor(selector).interestOps(what);
        selector.select(Math.max(1, left / NANOS_PER_MS));
        selector.selectedKeys().clear();
    }

    private void close() throws IOException {
        SocketChannel ended = channel;
        channel = null;
        if (ended != null) {
            ended.close();
            selector.close();
        }
    }

    /** No answer before the deadline. */
    static final class LateException extends IOException {
        private static final long serialVersionUID = 1;

        LateException() {
            super("no answer before the deadline");
        }
    }
}
