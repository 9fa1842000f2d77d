
maybe