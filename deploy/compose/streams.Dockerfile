# The Streams application of the tests, unchanged: it counts per key and per ten seconds.
FROM maven:3-eclipse-temurin-17 AS build
WORKDIR /src
COPY tests/java/pom.xml pom.xml
RUN mvn -q -B dependency:copy-dependencies -DoutputDirectory=/app/jars
COPY tests/java/bellwether/StreamsMain.java bellwether/StreamsMain.java
RUN mkdir -p /app/classes && javac -cp "/app/jars/*" -d /app/classes bellwether/StreamsMain.java

FROM eclipse-temurin:17-jre
RUN useradd --uid 10001 --create-home app
USER 10001
COPY --from=build /app /app
COPY deploy/compose/streams.sh /app/streams.sh
CMD ["sh", "/app/streams.sh"]
