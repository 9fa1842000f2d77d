# Completion of relay-opt in fish: asks relay-opt itself. Files are offered besides.
complete -c relay-opt -a "({{ask}} -- (commandline -cp) 2> /dev/null | string replace -rf '^word ' '')"
