# Stands in for the image prom/alertmanager.
ARG BASE
FROM ${BASE}
COPY alertmanager amtool /bin/
COPY *.tmpl /usr/share/prometheus/alertmanager/
RUN mkdir -p /alertmanager /etc/alertmanager && chown nobody:nogroup /alertmanager
USER nobody
WORKDIR /alertmanager
VOLUME /alertmanager
ENTRYPOINT ["/bin/alertmanager"]
CMD ["--config.file=/etc/alertmanager/alertmanager.yml", "--storage.path=/alertmanager"]
