# Types each line of standard input into an interactive zsh in folder $1, which completes it, and prints
# what becomes of the lines.
zmodload zsh/zpty
zpty shell "zsh -f -i"
zpty -w shell "cd ${(q)1}; PS1= PS2=; setopt no_beep; autoload -Uz compinit; compinit -u -d ./dump"
zpty -w shell 'source ./_relay-opt'
zpty -w shell 'become() { zle complete-word; print -r -- "$BUFFER" >> became; BUFFER= }'
zpty -w shell 'zle -N become; bindkey "^T" become'
while read -r line; do
    zpty -n -w shell "$line"$'\C-t'
done
zpty -w shell 'print -r -- done >> became'
for try in {1..300}; do
    grep -qx done $1/became 2> /dev/null && break
    sleep 0.1
done
zpty -d shell
cat $1/became
